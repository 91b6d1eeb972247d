"""A broker that hangs answers nothing and refuses nothing: the client asks around it, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster.any_node import SILENCE_MS
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.options.config import ConnectionConfig
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.pending_record import PendingRecord
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import DispatchLimits
from penstock.client.producer.sending.sender import ASK_AROUND_MS, Sender
from penstock.client.wire.connection import Connection
from penstock.errors import NetworkError, ReplicaNotAvailableError, RequestTimedOutError, TimedOutError
from penstock.record.codecs import Codec
from penstock.types import Endpoint, TopicPartition
from tests.support.client_environment import fake_environment, pool_of, stepped_threads
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual, virtual_clock

CONFIG = ConnectionConfig(request_timeout_ms=60_000, bootstrap_timeout_ms=5_000)


class Bench:
    """A producer's network half over fake nodes."""

    def __init__(self, leaders: dict[int, int], nodes: int = 3) -> None:
        self.clock = virtual_clock()
        self.nodes = FakeNodes(leaders, nodes)
        self.cluster = ClusterClient(self.nodes.bootstrap, CONFIG, fake_environment(self.nodes.network))
        self.cluster.track((TOPIC,))
        self.accumulator = Accumulator(AccumulatorConfig(10_000, 0, Codec.NONE), pool_of(1 << 20), stepped_threads())
        limits = DispatchLimits(120_000, CONFIG.request_timeout_ms, 1_000, self.cluster.backoff)
        dispatcher = BatchDispatcher(self.accumulator, self.cluster.cache, limits)
        self.sender = Sender(self.cluster, self.accumulator, dispatcher, -1, 5)
        self.sender.start(self.clock)

    def queue(self, partition: int) -> PartitionQueue:
        return self.accumulator.partitions.queue(TopicPartition(TOPIC, partition))

    def send(self, partition: int, value: bytes) -> RecordFuture:
        record = PendingRecord.of(None, value, (), None)
        future = self.accumulator.try_append(self.queue(partition), record, self.clock.now_ms(), 0)
        assert isinstance(future, RecordFuture)
        self.sender.wake()
        return future

    async def wait_acked(self, *futures: RecordFuture, within_ms: int) -> int:
        """How long it took."""
        began_ms = self.clock.now_ms()
        while not all(future.done() for future in futures):
            assert self.clock.now_ms() - began_ms < within_ms, "not acked"
            await asyncio.sleep(0.01)
        return self.clock.now_ms() - began_ms


def with_bench(story: Callable[[Bench], Awaitable[None]], leaders: dict[int, int]) -> None:
    async def run() -> None:
        bench = Bench(leaders)
        await bench.cluster.wait_ready()
        bench.nodes.forget_asked()
        try:
            await story(bench)
        finally:
            await bench.sender.close()
            await bench.cluster.close()

    run_virtual(run())


def test_a_hung_leader_is_left_as_soon_as_another_one_is_known() -> None:
    async def story(bench: Bench) -> None:
        bench.nodes.hang(1)
        futures = [bench.send(0, b"a"), bench.send(0, b"b")]
        await asyncio.sleep(2)
        bench.nodes.elect(0, 2)
        futures.append(bench.send(0, b"c"))
        assert await bench.wait_acked(*futures, within_ms=5_000) <= ASK_AROUND_MS + SILENCE_MS
        assert bench.nodes.log(0) == [(2, b"a"), (2, b"b"), (2, b"c")]
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
        assert bench.sender.statistics().possible_duplicates == 2, "the first batch was with the old leader"

    with_bench(story, leaders={0: 1})


def test_a_slow_leader_is_not_left_while_nobody_else_leads() -> None:
    async def story(bench: Bench) -> None:
        bench.nodes.hang(1)
        future = bench.send(0, b"a")
        await asyncio.sleep(10)
        assert bench.nodes.asked and 1 not in bench.nodes.asked, "the others are asked who leads"
        assert len(bench.nodes.asked) <= 10_000 // ASK_AROUND_MS + 1
        bench.nodes.resume(1)
        await bench.wait_acked(future, within_ms=100)
        statistics = bench.sender.statistics()
        assert statistics.requests_sent == 1 and statistics.batches_retried == 0
        assert statistics.possible_duplicates == 0

    with_bench(story, leaders={0: 1})


def test_what_the_silent_broker_still_leads_stays_with_it_and_its_late_answer_counts_for_that_alone() -> None:
    async def story(bench: Bench) -> None:
        bench.nodes.hang(1)
        moved, stays = bench.send(0, b"moved"), bench.send(1, b"stays")
        await asyncio.sleep(1)
        bench.nodes.elect(0, 2)
        await bench.wait_acked(moved, within_ms=3_000)
        after = bench.send(0, b"after")
        await bench.wait_acked(after, within_ms=100)
        assert not stays.done()
        bench.nodes.elect(0, 1)  # so that the late answer says "written" of a batch that is acked already
        bench.nodes.resume(1)
        await bench.wait_acked(stays, within_ms=100)
        assert (1, (0, 1)) in bench.nodes.produced, "one request has both"
        assert (moved.result(0).offset, after.result(0).offset, stays.result(0).offset) == (0, 1, 0)
        assert bench.nodes.log(0) == [(2, b"moved"), (2, b"after"), (1, b"moved")]
        assert bench.nodes.log(1) == [(1, b"stays")]
        statistics = bench.sender.statistics()
        assert (statistics.records_acked, statistics.possible_duplicates) == (3, 1)

    with_bench(story, leaders={0: 1, 1: 1})


def test_what_was_taken_back_is_not_written_late_to_the_old_leader() -> None:
    async def story(bench: Bench) -> None:
        bench.nodes.hang(1)
        future = bench.send(0, b"a")
        await asyncio.sleep(1)
        bench.nodes.elect(0, 2)
        await bench.wait_acked(future, within_ms=3_000)
        bench.nodes.elect(0, 1)
        bench.nodes.resume(1)
        await asyncio.sleep(1)
        assert bench.nodes.log(0) == [(2, b"a")], "the stream to it was ended"

    with_bench(story, leaders={0: 1})


@pytest.mark.parametrize(("cut_off", "elected"), [(2, 3), (3, 2)])
def test_a_node_that_is_cut_off_and_tells_of_old_leaders_is_not_the_only_one_asked(cut_off: int, elected: int) -> None:
    async def story(bench: Bench) -> None:
        bench.nodes.forget_news(cut_off)
        bench.nodes.hang(1)
        bench.nodes.elect(0, elected)
        future = bench.send(0, b"a")
        await bench.wait_acked(future, within_ms=SILENCE_MS + 2 * ASK_AROUND_MS)
        assert bench.nodes.log(0) == [(elected, b"a")]

    with_bench(story, leaders={0: 1})


def test_metadata_is_asked_of_another_node_when_one_is_silent() -> None:
    async def story(bench: Bench) -> None:
        for hung in (1, 2, 3):
            bench.nodes.hang(hung)
            bench.nodes.forget_asked()
            began_ms = bench.clock.now_ms()
            await bench.cluster.refresh()
            assert bench.clock.now_ms() - began_ms <= SILENCE_MS
            bench.nodes.resume(hung)

    with_bench(story, leaders={0: 1})


def test_nodes_that_may_hang_are_asked_when_the_others_are_gone() -> None:
    """Acks wait for a killed follower, so the leaders that live are silent, and the only other node is dead."""

    async def story(bench: Bench) -> None:
        async def ask(connection: Connection, timeout_ms: int) -> int:
            if connection.endpoint.port == 2:
                raise NetworkError("refused")
            return connection.endpoint.port

        began_ms = bench.clock.now_ms()
        silent = [Endpoint("fake", 1), Endpoint("fake", 3)]
        assert await bench.cluster.any_node.ask(ask, began_ms + 5_000, read_only=True, avoid=silent) in (1, 3)
        assert bench.clock.now_ms() == began_ms

    with_bench(story, leaders={0: 1})


def test_a_call_that_changes_something_is_not_made_twice_because_of_silence() -> None:
    async def story(bench: Bench) -> None:
        asked: list[Endpoint] = []

        async def change(connection: Connection, timeout_ms: int) -> str:
            asked.append(connection.endpoint)
            await asyncio.sleep(5)
            return "done"

        assert await bench.cluster.any_node.ask(change, bench.clock.now_ms() + 60_000) == "done"
        assert len(asked) == 1

    with_bench(story, leaders={0: 1})


@pytest.mark.parametrize("left_ms", range(400, 1_600, 130))
def test_what_a_node_answers_is_told_before_the_silence_of_the_others(left_ms: int) -> None:
    """Whichever node is asked last; and a node that answers no more is as silent as they are."""

    async def story(bench: Bench) -> None:
        cluster, asked = bench.cluster, 0

        async def ask(connection: Connection, timeout_ms: int) -> None:
            nonlocal asked
            asked += connection.endpoint == cluster.bootstrap[0]
            if connection.endpoint == cluster.bootstrap[0] and asked <= answers:
                raise ReplicaNotAvailableError("this broker is behind")
            raise NetworkError("connection refused")

        answers = 1_000
        with pytest.raises(ReplicaNotAvailableError, match="this broker is behind"):
            await cluster.any_node.ask(ask, cluster.clock.now_ms() + left_ms, read_only=True)
        answers, asked = 1, 0
        with pytest.raises(TimedOutError, match="connection refused"):
            await cluster.any_node.ask(ask, cluster.clock.now_ms() + 60_000, read_only=True)

    with_bench(story, {0: 1})


def test_what_a_node_told_is_the_error_when_the_deadline_cuts_its_next_answer_off() -> None:
    async def story(bench: Bench) -> None:
        answers = [ReplicaNotAvailableError("this broker is behind") for _ in bench.cluster.bootstrap]

        async def ask(connection: Connection, timeout_ms: int) -> None:
            if answers:
                raise answers.pop()
            await asyncio.sleep(timeout_ms / 1000)
            raise RequestTimedOutError(f"{connection.endpoint} is late")

        with pytest.raises(ReplicaNotAvailableError, match=r"this broker is behind; the last attempt had .* is late"):
            await bench.cluster.any_node.ask(ask, bench.cluster.clock.now_ms() + 5_000, read_only=True)

    with_bench(story, {0: 1})
