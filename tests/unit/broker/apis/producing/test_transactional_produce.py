"""Promises of Produce to batches of transactions: appended at once, or after their coordinator says yes, or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker.apis.producing.produce import ProduceApi
from broker.network.request_channel import Request
from broker.replication.hosting.assignment import TopicSettings
from broker.transactions.verification.held_batches import HeldBatches
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTxnStateError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    TransactionAbortableError,
)
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest
from penstock.record.batch import PRODUCER_ID_AT, iter_headers
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, state
from tests.support.sinks import CALLER, WaitedSink
from tests.support.upkeep_stage import ME, Stage, stage
from tests.support.verification import Coordinators, held_by

T = 1_700_000_000_000


def sent(sequence: int, epoch: int = 0, producer_id: int = 7, *, is_transactional: bool = True) -> bytes:
    return build_batch(
        [b"v"],
        timestamps_ms=T,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@dataclass
class Scene:
    """One partition that is led alone, and the coordinators of its transactions."""

    at: Stage
    coordinators: Coordinators = field(default_factory=Coordinators)
    verifies: bool = True

    def __post_init__(self) -> None:
        self.held: HeldBatches = held_by(self.coordinators, self.verifies)
        parts = self.at.replicas.parts
        self.api = ProduceApi(parts.hosted, parts.durability, parts.traffic, self.at.clock, self.held)

    def lead(self, isr: tuple[int, ...] = (ME,), min_isr: int = 1, partition_epoch: int = 1) -> None:
        settings = TopicSettings(LogConfig(), min_isr)
        self.at.replicas.apply(PARTITION, TOPIC_ID, state(ME, 5, partition_epoch, isr, (ME, 2)), settings, NOBODY)

    def produce(
        self,
        *batches: bytes,
        acks: int = -1,
        timeout_ms: int = 60_000,
        transactional_id: str = "mine",
        adds_partitions: bool = True,
    ) -> Request:
        parts = [PartitionRecords(PARTITION, TOPIC_ID, batch) for batch in batches]
        body = ProduceRequest(
            acks, timeout_ms, parts, transactional_id=transactional_id, adds_partitions=adds_partitions
        )
        request = Request("Produce", body, WaitedSink(), CALLER, NOW_NS)
        self.api.handle(request, body)
        return request

    async def results(self, request: Request) -> list[PartitionProduceResult]:
        sink: Any = request.sink
        await asyncio.wait_for(sink.answered.wait(), 60)
        response: Any = request.response
        return list(response.partitions)

    async def error(self, request: Request) -> ApiError | None:
        (result,) = await self.results(request)
        return result.error

    def end(self, epoch: int, is_committed: bool = True, producer_id: int = 7) -> None:
        """A marker of the producer, from its coordinator."""
        marker = build_marker(Marker(producer_id, epoch, is_committed, 1), T)
        self.at.partition.append_as_leader(marker, -1, 0, T, COORDINATOR)

    @property
    def log(self) -> list[tuple[int, int, bool]]:
        """Epoch, sequence and whether it is a marker, of each batch."""
        found = self.at.partition.log.reader.read(0, 1 << 20)
        return [(one.producer_epoch, one.base_sequence, one.is_control) for _, one in iter_headers(found.records)]


def play(
    tmp_path: Path, story: Callable[[Scene], Coroutine[Any, Any, None]], verifies: bool = True, **coordinators: Any
) -> None:
    async def main() -> None:
        async with stage(tmp_path, LogConfig()) as at:
            scene = Scene(at, Coordinators(**coordinators), verifies)
            scene.lead()
            await story(scene)
            await scene.held._verifier.stop()
            assert not len(at.partition.guards)

    asyncio.run(main())


def test_the_first_batch_of_a_transaction_asks_and_the_others_do_not(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        first = scene.produce(sent(0))
        assert scene.log == []
        (result,) = await scene.results(first)
        assert (result.error, result.base_offset) == (None, 0)
        (again,) = await scene.results(scene.produce(sent(1)))
        assert (again.error, again.base_offset) == (None, 1)
        assert scene.coordinators.asked == [("mine", PARTITION)]
        assert not scene.coordinators.calls[0][1].transactions[0].verify_only
        scene.end(1)
        assert await scene.error(scene.produce(sent(0, epoch=1))) is None
        assert len(scene.coordinators.asked) == 2
        assert scene.log == [(0, 0, False), (0, 1, False), (1, -1, True), (1, 0, False)]

    play(tmp_path, story)


def test_an_old_producers_partition_is_only_looked_for(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.error(scene.produce(sent(0), adds_partitions=False)) is None
        assert scene.coordinators.calls[0][1].transactions[0].verify_only

    play(tmp_path, story)


def test_without_verification_a_partition_is_added_but_not_looked_for(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.error(scene.produce(sent(0), adds_partitions=False)) is None
        assert scene.coordinators.calls == []
        assert await scene.error(scene.produce(sent(0, producer_id=8), transactional_id="new")) is None
        assert not scene.coordinators.calls[0][1].transactions[0].verify_only

    play(tmp_path, story, verifies=False)


def test_batches_that_come_meanwhile_are_appended_behind_the_first(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        requests = [scene.produce(sent(n)) for n in range(4)]
        for number, request in enumerate(requests):
            (result,) = await scene.results(request)
            assert (result.error, result.base_offset) == (None, number)
        assert len(scene.coordinators.asked) == 1

    play(tmp_path, story)


def test_a_batch_that_waits_does_not_hold_up_others(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        waits = scene.produce(sent(0))
        plain = scene.produce(build_batch([b"v"], timestamps_ms=T), transactional_id="")
        other = scene.produce(sent(0, producer_id=8, is_transactional=False), transactional_id="")
        assert await scene.error(plain) is None and await scene.error(other) is None
        assert not waits.is_complete
        scene.coordinators.opened.set()
        assert await scene.error(waits) is None

    play(tmp_path, story, closed={"mine"})


def test_a_refused_batch_is_not_appended(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for request in [scene.produce(sent(0)), scene.produce(sent(1))]:
            error = await scene.error(request)
            assert isinstance(error, TransactionAbortableError) and error.nothing_written
        assert scene.log == []

    play(tmp_path, story, say=lambda transaction, partition: InvalidTxnStateError("not part of it"))


def test_a_duplicate_asks_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.error(scene.produce(sent(0), adds_partitions=False))
        scene.end(0)
        (again,) = await scene.results(scene.produce(sent(0), adds_partitions=False))
        assert (again.error, again.base_offset) == (None, 0)
        assert len(scene.coordinators.asked) == 1 and len(scene.log) == 2

    play(tmp_path, story)


def test_a_marker_that_comes_meanwhile_refuses_the_batch_of_an_old_producer(tmp_path: Path) -> None:
    """Else it would begin a transaction here that nobody ends: its coordinator has ended it (KIP-890)."""

    async def story(scene: Scene) -> None:
        waits = scene.produce(sent(0), adds_partitions=False)
        scene.end(0, is_committed=False)
        assert isinstance(await scene.error(waits), TransactionAbortableError)
        assert scene.log == [(0, -1, True)]
        assert scene.at.partition.log.transactions.open_of(7) is None

    play(tmp_path, story)


def test_a_batch_that_a_time_out_has_overtaken_is_refused(tmp_path: Path) -> None:
    """Version 2: the abort has a higher epoch. The coordinator would say the same."""

    async def story(scene: Scene) -> None:
        waits = scene.produce(sent(0))
        scene.end(1, is_committed=False)
        assert isinstance(await scene.error(waits), InvalidProducerEpochError)
        assert scene.log == [(1, -1, True)]

    play(tmp_path, story)


def test_a_request_that_was_given_up_meanwhile_is_not_appended(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        left = scene.produce(sent(0))
        stays = scene.produce(sent(0, producer_id=8), transactional_id="other")
        left.abandoned()
        assert await scene.error(stays) is None
        await asyncio.sleep(0.01)
        assert len(scene.log) == 1 and scene.at.partition.log.transactions.open_of(7) is None

    play(tmp_path, story)


def test_a_lead_that_is_lost_meanwhile_refuses_the_batch(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        waits = scene.produce(sent(0))
        follow = state(2, 6, 3, (ME, 2), (ME, 2))
        scene.at.replicas.apply(PARTITION, TOPIC_ID, follow, TopicSettings(LogConfig(), 1), NOBODY)
        error = await scene.error(waits)
        assert isinstance(error, NotLeaderOrFollowerError) and error.nothing_written

    play(tmp_path, story)


def test_a_coordinator_that_hangs_is_a_retriable_error_before_the_time_is_up(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        error = await scene.error(scene.produce(sent(0), timeout_ms=300))
        assert isinstance(error, NotEnoughReplicasError) and error.retriable and error.nothing_written
        assert scene.log == []

    play(tmp_path, story, closed={"mine"})


def test_the_log_has_the_last_word_about_a_batch_that_waited(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert isinstance(await scene.error(scene.produce(bytearray_with_bad_crc(sent(0)))), CorruptMessageError)
        assert await scene.error(scene.produce(sent(0))) is None
        assert isinstance(await scene.error(scene.produce(sent(5))), OutOfOrderSequenceError)

    play(tmp_path, story)


def bytearray_with_bad_crc(batch: bytes) -> bytes:
    changed = bytearray(batch)
    changed[-1] ^= 1
    return bytes(changed)


def test_with_too_few_in_sync_nobody_is_asked(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.lead(min_isr=2, partition_epoch=2)
        assert isinstance(await scene.error(scene.produce(sent(0))), NotEnoughReplicasError)
        assert not scene.coordinators.calls

    play(tmp_path, story)


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_are_answered_in_their_own_way(tmp_path: Path, acks: int) -> None:
    async def story(scene: Scene) -> None:
        request = scene.produce(sent(0), acks=acks)
        if acks:
            assert await scene.error(request) is None
        else:
            assert request.is_complete
            while not scene.log:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert len(scene.log) == 1

    play(tmp_path, story)


def test_two_batches_of_a_request_are_answered_each(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        results = await scene.results(scene.produce(sent(0), sent(1)))
        assert [(one.error, one.base_offset) for one in results] == [(None, 0), (None, 1)]

    play(tmp_path, story)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_transactional_batch_without_a_transactional_id_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        error = await scene.error(scene.produce(sent(0), transactional_id=""))
        assert isinstance(error, InvalidRequestError) and error.nothing_written
        assert scene.log == [] and not scene.coordinators.calls

    play(tmp_path, story)


def test_batches_of_two_producers_in_one_transaction_are_refused_before_any_is_appended(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(InvalidProducerIdMappingError):
            scene.produce(sent(0), sent(0, producer_id=8))
        assert scene.log == [] and not scene.coordinators.calls

    play(tmp_path, story)


def test_a_batch_that_is_not_transactional_is_refused_while_its_producer_has_a_transaction(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.error(scene.produce(sent(0)))
        error = await scene.error(scene.produce(sent(1, is_transactional=False)))
        assert isinstance(error, InvalidTxnStateError) and error.nothing_written
        assert len(scene.log) == 1

    play(tmp_path, story)


def test_a_transactional_batch_without_a_producer_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        nobody = build_batch([b"v"], timestamps_ms=T, is_transactional=True)
        assert isinstance(await scene.error(scene.produce(nobody)), InvalidRecordError)
        assert scene.log == [] and not scene.coordinators.calls

    play(tmp_path, story)


def test_a_transactional_batch_behind_another_one_is_refused(tmp_path: Path) -> None:
    """The first batch alone is looked at; the log takes a producer's batch only if it stands alone."""

    async def story(scene: Scene) -> None:
        both = build_batch([b"v"], timestamps_ms=T) + sent(0)
        assert isinstance(await scene.error(scene.produce(both)), InvalidRecordError)
        assert isinstance(await scene.error(scene.produce(sent(0) + sent(1))), InvalidRecordError)
        assert scene.log == []

    play(tmp_path, story)


def test_a_marker_of_a_client_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        marker = build_marker(Marker(7, 0, True, 1), T)
        assert isinstance(await scene.error(scene.produce(marker)), InvalidRecordError)
        assert scene.log == []

    play(tmp_path, story)


@pytest.mark.parametrize("size", [0, 1, 22, 23, 60])
def test_bytes_that_are_no_batch_are_refused(tmp_path: Path, size: int) -> None:
    async def story(scene: Scene) -> None:
        error = await scene.error(scene.produce(sent(0)[:size]))
        assert error is not None and error.nothing_written
        assert scene.log == [] and not scene.coordinators.calls

    play(tmp_path, story)


@pytest.mark.parametrize("producer_id", [-2, 2**63 - 1])
def test_odd_producer_ids_change_nothing(tmp_path: Path, producer_id: int) -> None:
    async def story(scene: Scene) -> None:
        odd = bytearray(sent(0))
        odd[PRODUCER_ID_AT : PRODUCER_ID_AT + 8] = producer_id.to_bytes(8, "big", signed=True)
        error = await scene.error(scene.produce(bytes(odd)))
        assert isinstance(error, CorruptMessageError | InvalidRecordError)
        assert scene.log == []

    play(tmp_path, story)
