"""A produced batch that is in the log already: it gets its first offsets, after the same acks, and is not counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.apis.producing.produce import ProduceApi
from broker.network.request_channel import Request
from broker.replication.hosting.assignment import TopicSettings
from penstock.errors import ApiError, MessageTooLargeError, NotEnoughReplicasError, NotLeaderOrFollowerError
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest
from penstock.record.builder import build_batch
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, state
from tests.support.sinks import CALLER, WaitedSink
from tests.support.upkeep_stage import ME, Stage, stage
from tests.support.verification import Coordinators, held_by

BOTH = (ME, 2)


def sent(sequence: int, count: int = 1) -> bytes:
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    return build_batch([b"v"] * count, timestamps_ms=1_700_000_000_000, **fields)  # type: ignore[arg-type]


def asked(records: bytes, acks: int = -1, refused: ApiError | None = None) -> Request:
    body = ProduceRequest(acks, 60_000, [PartitionRecords(PARTITION, TOPIC_ID, records)])
    request = Request("Produce", body, WaitedSink(), CALLER, NOW_NS)
    request.prepared = {} if refused is None else {0: refused}
    return request


def produce(at: Stage, request: Request) -> Request:
    body: Any = request.body
    parts = at.replicas.parts
    ProduceApi(parts.hosted, parts.durability, parts.traffic, at.clock, held_by(Coordinators())).handle(request, body)
    return request


def is_answered(request: Request) -> bool:
    sink: Any = request.sink
    return bool(sink.answered.is_set())


async def answer(request: Request) -> PartitionProduceResult:
    sink: Any = request.sink
    await asyncio.wait_for(sink.answered.wait(), 60)
    response: Any = request.response
    (result,) = response.partitions
    assert isinstance(result, PartitionProduceResult)
    return result


def counted(at: Stage) -> tuple[int, int]:
    traffic = at.replicas.parts.traffic
    return traffic.messages_in, traffic.bytes_in


def lead(at: Stage, isr: tuple[int, ...], min_isr: int = 1, partition_epoch: int = 1) -> None:
    settings = TopicSettings(LogConfig(), min_isr)
    at.replicas.apply(PARTITION, TOPIC_ID, state(ME, 5, partition_epoch, isr, BOTH), settings, NOBODY)


def on_stage(tmp_path: Path, story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            await story(at)

    asyncio.run(main())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_duplicate_of_an_acked_batch_is_answered_and_not_counted(acks: int, tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        lead(at, (ME,))
        await answer(produce(at, asked(sent(0, 3))))
        await answer(produce(at, asked(sent(3))))
        before = counted(at)

        again = produce(at, asked(sent(0, 3), acks))
        if acks:
            result = await answer(again)
            assert (result.error, result.base_offset) == (None, 0)
        assert counted(at) == before
        assert at.partition.log.log_end_offset == 4

    on_stage(tmp_path, story)


def test_a_duplicate_is_not_acked_before_the_first_one_is_committed(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        lead(at, BOTH)
        first = [produce(at, asked(sent(n))) for n in range(3)]
        again = produce(at, asked(sent(1)))
        at.partition.log.flush()
        at.partition.flushed(3)
        assert not any(map(is_answered, (*first, again))), "the follower has not fetched"

        lead(at, (ME,), partition_epoch=2)
        for request, offset in zip((*first, again), (0, 1, 2, 1), strict=True):
            assert (await answer(request)).base_offset == offset

    on_stage(tmp_path, story)


def test_a_duplicate_waits_for_the_flush_that_its_first_one_waits_for(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        lead(at, BOTH)
        at.partition.append_as_leader(sent(0), 1, 0, at.clock.wall_ms())
        assert at.partition.log.flushed_offset == 0
        again = produce(at, asked(sent(0), acks=1))
        assert not is_answered(again)
        assert (await answer(again)).error is None
        assert at.partition.log.flushed_offset == 1

    on_stage(tmp_path, story)


def test_a_duplicate_that_was_refused_on_its_way_is_answered_all_the_same(tmp_path: Path) -> None:
    """The topic's limits were lowered since: the thread that converts batches knows nothing of the log."""

    async def story(at: Stage) -> None:
        lead(at, (ME,))
        await answer(produce(at, asked(sent(0))))
        refusal = MessageTooLargeError("too large")
        assert (await answer(produce(at, asked(sent(0), refused=refusal)))).base_offset == 0
        assert (await answer(produce(at, asked(sent(1), refused=refusal)))).error is refusal
        assert at.partition.log.log_end_offset == 1

    on_stage(tmp_path, story)


def test_a_duplicate_gets_the_errors_of_an_append(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        lead(at, (ME,))
        await answer(produce(at, asked(sent(0))))
        lead(at, (ME,), min_isr=2, partition_epoch=2)
        for refusal in (None, MessageTooLargeError("too large")):
            error = (await answer(produce(at, asked(sent(0), refused=refusal)))).error
            assert isinstance(error, NotEnoughReplicasError) and error.nothing_written
        follow = state(2, 6, 3, BOTH, BOTH)
        at.replicas.apply(PARTITION, TOPIC_ID, follow, TopicSettings(LogConfig(), 1), NOBODY)
        for refusal in (None, MessageTooLargeError("too large")):
            error = (await answer(produce(at, asked(sent(0), refused=refusal)))).error
            assert isinstance(error, NotLeaderOrFollowerError)

    on_stage(tmp_path, story)


def test_a_silent_producer_is_forgotten_by_the_job(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        lead(at, (ME,))
        await answer(produce(at, asked(sent(0))))
        await at.upkeep.expire_producers(at.log_dir)
        assert len(at.partition.log.producers) == 1
        at.clock.advance(25 * 3_600_000)
        await at.upkeep.expire_producers(at.log_dir)
        assert len(at.partition.log.producers) == 0

    on_stage(tmp_path, story)
