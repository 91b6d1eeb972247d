"""Promises of a produce answer in parts: what is known is told, once, in order, and nothing else waits for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.producing.delayed_produce import PART_AFTER_MS
from broker.apis.producing.produce import ProduceApi
from broker.load.busy_time import BusyTimes
from broker.network import processor as processors
from broker.network.processor import Processor
from broker.network.request_channel import Caller, RequestChannel
from broker.replication.replica_statistics import Traffic
from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError, RequestTimedOutError
from penstock.messages.produce import PartitionRecords, ProduceRequest, ProduceResponse
from penstock.pb import broker_pb2 as pb
from penstock.types import CLIENT_LISTENER, Endpoint, LeaderHint, ListenerEndpoint, TopicPartition
from penstock.wire.error_message import error_in_message
from penstock.wire.streams import produce_response_to_bytes
from tests.support.machine import NOW_NS
from tests.support.partitions import TOPIC_ID, batch, flush, make_partition, state
from tests.support.sinks import submit
from tests.support.verification import Coordinators, held_by
from tests.support.virtual_time import run_virtual

KEYS = HUNG, WELL, SLOW = tuple(TopicPartition("t", number) for number in range(3))
AFTER = PART_AFTER_MS / 1000 + 0.01
Answer = tuple[int, list[int], bool]
"""Correlation id, partitions, whether more follows."""


class Stage:
    """One connection, and partitions that this broker leads alone; the test flushes them."""

    def __init__(self, path: Path, listener: str) -> None:
        self.partitions = {key: make_partition(path / str(key)) for key in KEYS}
        for partition in self.partitions.values():
            partition.become_leader(state(isr=(1,)), 0)
        fake: Any = SimpleNamespace(
            get=lambda key, topic_id: self.partitions[key], request_flush=lambda partition: None
        )
        self.api = ProduceApi(fake, fake, Traffic(), ManualClock(), held_by(Coordinators()))
        self.channel = RequestChannel(100, BusyTimes(NOW_NS), NOW_NS)
        self.processor = Processor(self.channel, Caller(Endpoint("client", 1), listener), 4)
        self.asked = 0

    async def ask(self, *keys: TopicPartition, acks: int = -1, timeout_ms: int = 30_000, parts: bool = True) -> None:
        """The next request; the correlation ids count from 1."""
        self.asked += 1
        records = [PartitionRecords(key, TOPIC_ID, batch()) for key in keys]
        body = ProduceRequest(acks, timeout_ms, records, answer_in_parts=parts)
        await asyncio.wait_for(submit(self.processor, "Produce", body, number=self.asked), 1)
        request = await self.channel.receive()
        self.api.handle(request, body)

    def flush(self, key: TopicPartition) -> None:
        flush(self.partitions[key])

    async def _next(self) -> tuple[int, ProduceResponse]:
        request = await asyncio.wait_for(self.processor.next_response(), 60)
        assert request is not None
        response = request.take_answer()
        assert isinstance(response, ProduceResponse)
        return request.correlation_id, response

    async def answer(self) -> ProduceResponse:
        return (await self._next())[1]

    async def tells(self) -> Answer:
        number, response = await self._next()
        return number, [r.partition.partition for r in response.partitions], response.more_follows

    async def leaders_of_answer(self) -> list[tuple[int, Endpoint | None]]:
        """The leaders that the next answer, or part of one, tells for its partitions."""
        request = await asyncio.wait_for(self.processor.next_response(), 60)
        assert request is not None
        raw = request.encoded(lambda answer: produce_response_to_bytes(request.correlation_id, answer))
        response = pb.ProduceResponse.FromString(raw)
        errors = [(result.partition, error_in_message(result.error)) for result in response.partitions]
        return [(number, error.leader.endpoint) for number, error in errors if error is not None and error.leader]

    def is_silent(self) -> bool:
        return not self.processor._ready


def shown(story: Callable[[Stage], Awaitable[None]], path: Path, listener: str = CLIENT_LISTENER) -> None:
    async def run() -> None:
        stage = Stage(path, listener)
        await story(stage)
        stage.processor.close()
        assert stage.channel.statistics().response_queue_size == 0

    run_virtual(run())


def test_all_that_is_known_soon_is_one_answer_and_answers_are_in_order(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL)
        await at.ask(SLOW)
        at.flush(SLOW)
        at.flush(WELL)
        await asyncio.sleep(PART_AFTER_MS / 1000 / 2)
        assert at.is_silent()
        at.flush(HUNG)
        assert [await at.tells(), await at.tells()] == [(1, [0, 1], False), (2, [2], False)]

    shown(story, tmp_path)


def test_what_is_known_is_told_and_later_requests_are_answered_first(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, SLOW)
        at.flush(WELL)
        await at.ask(WELL)
        at.flush(WELL)
        await asyncio.sleep(AFTER)
        assert [await at.tells(), await at.tells()] == [(1, [1], True), (2, [1], False)]
        at.flush(SLOW)
        assert await at.tells() == (1, [2], True)
        at.flush(HUNG)
        assert await at.tells() == (1, [0], False)
        assert at.is_silent()

    shown(story, tmp_path)


def test_one_of_which_nothing_is_known_is_told_to_wait(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG)
        assert await at.tells() == (1, [], True)
        await at.ask(WELL)
        at.flush(WELL)
        assert await at.tells() == (2, [1], False)

    shown(story, tmp_path)


def test_of_one_partition_the_earlier_request_is_told_first(tmp_path: Path) -> None:
    """The second request is aside with its own news when the first one's comes."""

    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL)
        await at.ask(HUNG, WELL, SLOW)
        await asyncio.sleep(AFTER)
        assert [await at.tells(), await at.tells()] == [(1, [], True), (2, [], True)]
        at.flush(SLOW)
        at.flush(HUNG)
        assert [await at.tells(), await at.tells()] == [(1, [0], True), (2, [2, 0], True)]
        at.flush(WELL)
        assert [await at.tells(), await at.tells()] == [(1, [1], False), (2, [1], False)]

    shown(story, tmp_path)


def test_a_client_that_takes_no_parts_gets_one_answer_in_its_turn(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, parts=False)
        await at.ask(WELL)
        at.flush(WELL)
        await asyncio.sleep(1)
        assert at.is_silent()
        at.flush(HUNG)
        assert [await at.tells(), await at.tells()] == [(1, [0, 1], False), (2, [1], False)]

    shown(story, tmp_path)


def test_when_the_time_is_up_the_rest_fails_and_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, timeout_ms=5_000)
        at.flush(WELL)
        assert await at.tells() == (1, [1], True)
        (result,) = (await at.answer()).partitions
        assert result.partition == HUNG and isinstance(result.error, RequestTimedOutError)
        assert len(at.partitions[HUNG].acks_all) == 0, "a disk that hangs for days collects no waiters"
        at.flush(HUNG)
        assert at.is_silent()

    shown(story, tmp_path)


def test_a_log_dir_that_fails_ends_the_wait(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL)
        at.flush(WELL)
        assert await at.tells() == (1, [1], True)
        at.partitions[HUNG].stop(KafkaStorageError("gone"))
        (result,) = (await at.answer()).partitions
        assert result.partition == HUNG and isinstance(result.error, KafkaStorageError)

    shown(story, tmp_path)


def test_a_short_time_out_and_acks_0_have_no_parts(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, timeout_ms=PART_AFTER_MS)
        await at.ask(HUNG, acks=0)
        assert [await at.tells(), await at.tells()] == [(1, [0, 1], False), (2, [], False)]

    shown(story, tmp_path)


def test_requests_that_wait_leave_room_for_others_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "ASIDE_RESULTS_MAX", 20)

    async def story(at: Stage) -> None:
        for number in range(1, 21):  # the connection may have four open ones
            await at.ask(HUNG)
            assert await at.tells() == (number, [], True)
        full = asyncio.ensure_future(at.processor.wait_room())
        await asyncio.sleep(1)
        assert not full.done(), "further requests wait in the connection"
        at.flush(HUNG)
        assert [(await at.tells())[0] for _ in range(20)] == list(range(1, 21))
        await asyncio.wait_for(full, 1)

    shown(story, tmp_path)


def test_the_errors_of_all_parts_are_counted_once(tmp_path: Path) -> None:
    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, SLOW)
        at.partitions[WELL].stop(KafkaStorageError("first"))
        await asyncio.sleep(AFTER)
        request = await at.processor.next_response()
        assert request is not None
        request.take_answer()
        at.partitions[HUNG].stop(KafkaStorageError("then"))
        at.flush(SLOW)
        assert await at.processor.next_response() is request
        assert [str(error) for error in request.failures] == ["first", "then"]

    shown(story, tmp_path)


@pytest.mark.parametrize(("listener", "address"), [("OUTSIDE", Endpoint("outside", 2)), ("LAB", None)])
def test_each_part_names_new_leaders_at_the_clients_own_listener(
    tmp_path: Path, listener: str, address: Endpoint | None
) -> None:
    """Two partitions move while the third hangs, each told in a part of its own; the third is told with the end."""
    hint = LeaderHint(2, 6, Endpoint("inside", 1), TOPIC_ID, (ListenerEndpoint("OUTSIDE", Endpoint("outside", 2)),))

    async def story(at: Stage) -> None:
        await at.ask(HUNG, WELL, SLOW)
        assert await at.leaders_of_answer() == []
        for key in (WELL, SLOW, HUNG):
            at.partitions[key].become_follower(state(leader_id=2, leader_epoch=6), hint)
            assert await at.leaders_of_answer() == [(key.partition, address)]
            assert at.partitions[key].leader_hint is hint, "which the answers to others have too"

    shown(story, tmp_path, listener)
