"""Looking positions up: what cannot be found of one partition holds up no other, spins never, and is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from penstock import AsyncConsumer
from penstock.backoff import Backoff
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.client.consumer.fetching.effects import ReportError
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.look_ups import PLACED_MS
from penstock.client.consumer.fetching.positions import UNKNOWN_PARTITION_GRACE_MS, Positions
from penstock.client.consumer.reader import Reader
from penstock.client.options.config import ConnectionConfig, consumer_config
from penstock.errors import UnknownTopicOrPartitionError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.record.builder import build_batch
from penstock.types import NO_LEADER, NO_OFFSET, EpochEndOffset, TopicPartition
from tests.support.client_environment import buffer_of, fake_environment, nothing
from tests.support.fake_network import FakeNetwork
from tests.support.fake_node import FakeNode
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.scripted_fetch import TP, ScriptedCluster, answer_of, batch_at
from tests.support.virtual_time import run_virtual

CONFIG = ConnectionConfig(bootstrap_timeout_ms=5_000)
END_OFFSET = 7
GOOD, BAD = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Bench:
    """A consumer's network half over fake nodes."""

    def __init__(self, leaders: dict[int, int]) -> None:
        self.nodes = FakeNodes(leaders, 2, END_OFFSET)
        self.cluster = ClusterClient(self.nodes.bootstrap, CONFIG, fake_environment(self.nodes.network))
        self.positions = Positions("latest", self.cluster.backoff)
        self.buffer = buffer_of(1 << 20)
        self.fetcher = Fetcher(self.cluster, self.positions, self.buffer, consumer_config({}), nothing)

    def position(self, tp: TopicPartition) -> int:
        return self.positions.states[tp].position


def with_bench(leaders: dict[int, int], story: Callable[[Bench], Awaitable[None]], hung: int | None = None) -> None:
    async def run() -> None:
        bench = Bench(leaders)
        await bench.cluster.refresh((TOPIC,))
        if hung is not None:
            bench.nodes.hang(hung)
        try:
            await bench.fetcher.assign([GOOD, BAD])
            await story(bench)
        finally:
            await bench.fetcher.close()
            await bench.cluster.close()

    run_virtual(run())


def test_a_partition_without_a_leader_holds_up_no_other() -> None:
    async def story(bench: Bench) -> None:
        await asyncio.sleep(1)
        assert (bench.position(GOOD), bench.position(BAD)) == (END_OFFSET, NO_OFFSET)
        bench.nodes.elect(1, 2)
        await asyncio.sleep(3)
        assert bench.position(BAD) == END_OFFSET

    with_bench({0: 1, 1: NO_LEADER}, story)


def test_a_leader_that_hangs_holds_up_no_other() -> None:
    async def story(bench: Bench) -> None:
        await asyncio.sleep(METADATA_ATTEMPT_MS / 1000 + 1)
        assert (bench.position(GOOD), bench.position(BAD)) == (END_OFFSET, NO_OFFSET)
        bench.nodes.resume(2)
        await asyncio.sleep(METADATA_ATTEMPT_MS / 1000 + 2)
        assert bench.position(BAD) == END_OFFSET

    with_bench({0: 1, 1: 2}, story, hung=2)


def test_a_partition_that_the_topic_made_anew_does_not_have_is_reported_and_not_asked_for_without_pause() -> None:
    async def story(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.nodes.make_anew({0: 1})
        bench.nodes.forget_asked()
        await bench.cluster.refresh()
        await asyncio.sleep(2 * UNKNOWN_PARTITION_GRACE_MS / 1000)
        assert bench.position(GOOD) == END_OFFSET
        report = bench.buffer.take()
        assert isinstance(report, ReportError) and report.topic_partition == BAD
        assert isinstance(report.error, UnknownTopicOrPartitionError)
        assert len(bench.nodes.asked) <= 20

    with_bench({0: 1, 1: 2}, story)


def test_a_reset_that_waits_for_the_user_goes_on_when_the_user_has_read() -> None:
    def truncated_below_10(call: FetchRequest) -> FetchResponse:
        offset = call.partitions[0].fetch_offset
        if offset <= 5:
            return answer_of(call, batch_at(0), offset)
        answer = answer_of(call, b"", offset)
        answer.partitions[0].diverging_epoch = EpochEndOffset(0, 5)
        return answer

    async def story() -> None:
        cluster: Any = ScriptedCluster(truncated_below_10)
        positions, buffer = Positions("earliest", Backoff(100, 100, Random(0))), buffer_of(1 << 20)
        reader = Reader(positions, buffer)
        fetcher = Fetcher(cluster, positions, buffer, consumer_config({}), nothing)
        await fetcher.assign([TP])
        positions.seek(TP, 0)
        fetcher.touch()
        await asyncio.sleep(1)
        with reader.turn():
            piece = reader.next_piece()
            assert piece is not None and piece.next_offset == 10
            reader.give(piece)
        await asyncio.sleep(1)
        assert positions.states[TP].start.offset == 5, "it goes on where the log diverges"
        await fetcher.close()

    run_virtual(story())


@pytest.mark.parametrize("prepare", ["assign", "seek_to_end", "assigned again"])
def test_what_is_acked_after_the_end_was_assigned_or_sought_is_read(prepare: str) -> None:
    """The leader answers late, so the record would be before the place where reading begins."""

    async def story(bench: Bench) -> None:
        nodes = bench.nodes
        network = FakeNetwork(3, (5, 50))
        for endpoint in nodes.bootstrap:
            network.listen(endpoint, FakeNode(nodes.cluster, endpoint.port))
        addresses = [str(endpoint) for endpoint in nodes.bootstrap]
        async with AsyncConsumer(addresses, environment=fake_environment(network)) as consumer:
            await consumer.assign([GOOD])
            if prepare == "seek_to_end":
                await consumer.seek_to_beginning()
                await consumer.seek_to_end()
            elif prepare == "assigned again":
                await consumer.assign([GOOD, BAD])
            for tp in consumer.assignment():
                nodes.cluster.append(*tp, build_batch([b"new"], timestamps_ms=0))
            found: list[bytes | None] = []
            while len(found) < len(consumer.assignment()):
                polled = await consumer.poll(timeout_ms=3_000)
                assert polled, "a record was missed"
                found += [record.value for record in polled]

    with_bench({0: 1, 1: 2}, story)


def test_an_assignment_waits_a_bounded_time_for_a_leader_that_hangs_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(bench: Bench) -> None:
        began_ms = bench.cluster.clock.now_ms()
        await bench.fetcher.assign([GOOD, BAD])
        assert 0 <= bench.cluster.clock.now_ms() - began_ms - PLACED_MS < 10
        assert bench.position(GOOD) == END_OFFSET
        began_ms = bench.cluster.clock.now_ms()
        await bench.fetcher.assign([GOOD])
        assert bench.cluster.clock.now_ms() == began_ms

    with caplog.at_level("WARNING"):
        with_bench({0: 1, 1: 2}, story, hung=2)
    message = (
        f"{BAD}: where the log ends is not known after {PLACED_MS} ms; reading begins at the end that it tells later"
    )
    assert message in caplog.messages
