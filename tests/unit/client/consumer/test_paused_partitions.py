"""Paused partitions: nothing is fetched or given of them, nothing is lost or given twice, the others go on; and how far
behind a consumer is. In virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from penstock import AsyncConsumer, Consumer, TopicPartition
from penstock.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

A, B = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Stage:
    """Two partitions of ten records, and a consumer of both."""

    def __init__(self) -> None:
        self.nodes = FakeNodes({0: 1, 1: 2}, 2, records=10)
        bootstrap = [str(endpoint) for endpoint in self.nodes.bootstrap]
        environment = fake_environment(self.nodes.network)
        self.consumer = AsyncConsumer(bootstrap, environment=environment, auto_offset_reset="earliest")

    def append(self, tp: TopicPartition, count: int, first: int = 10) -> None:
        values = [b"%d" % n for n in range(first, first + count)]
        self.nodes.cluster.append(*tp, build_batch(values, timestamps_ms=0))

    async def places(self, timeout_ms: int = 1_000, **options: int) -> list[tuple[int, int]]:
        return [(r.partition, r.offset) for r in await self.consumer.poll(timeout_ms=timeout_ms, **options)]

    async def everything(self) -> list[tuple[int, int]]:
        """The places of all records that come until none does."""
        found: list[tuple[int, int]] = []
        while more := await self.places():
            found += more
        return found

    def fetched(self) -> set[int]:
        """The partitions that fetch requests wanted since the last time."""
        named = {part.partition for _, request in self.nodes.cluster.fetches for part in request.partitions}
        self.nodes.cluster.fetches.clear()
        return named


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        stage = Stage()
        async with stage.consumer:
            await story(stage)

    run_virtual(run())


def test_a_paused_partition_gives_nothing_and_is_not_fetched_until_it_is_resumed() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        await consumer.assign([A, B])
        consumer.pause([A])
        assert consumer.paused() == [A] and consumer.assignment() == [A, B]
        assert await stage.everything() == [(1, n) for n in range(10)]
        stage.fetched()
        stage.append(A, 5)
        stage.append(B, 5)
        assert await stage.everything() == [(1, n) for n in range(10, 15)]
        assert stage.fetched() == {1} and await consumer.position(A) == 0
        consumer.resume([A])
        assert consumer.paused() == []
        assert await stage.everything() == [(0, n) for n in range(15)]

    played(story)


def test_what_was_fetched_before_a_pause_is_kept_and_comes_first_afterwards() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        await consumer.assign([A])
        assert await stage.places(max_records=3) == [(0, 0), (0, 1), (0, 2)]
        consumer.pause([A])
        assert await stage.places() == [] and await consumer.position(A) == 3
        stage.append(A, 5)
        stage.fetched()
        consumer.resume([A])
        assert await stage.places(timeout_ms=0) == [(0, n) for n in range(3, 10)], "without asking a broker"
        assert await stage.everything() == [(0, n) for n in range(10, 15)]

    played(story)


def test_a_seek_counts_while_paused_and_leaves_the_partition_paused() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        await consumer.assign([A])
        await stage.places(max_records=3)
        consumer.pause([A])
        await stage.places()
        await consumer.seek(A, 8)
        assert consumer.paused() == [A] and await stage.places() == []
        consumer.resume([A])
        assert await stage.everything() == [(0, 8), (0, 9)]

    played(story)


def test_a_partition_that_leaves_the_assignment_comes_back_unpaused_and_one_that_stays_stays_paused() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        await consumer.assign([A, B])
        await stage.places(max_records=1)
        consumer.pause([A, B])
        await stage.places()
        await consumer.assign([B])
        assert consumer.paused() == [B]
        await consumer.assign([A, B])
        assert consumer.paused() == [B]
        consumer.pause([B])
        assert await stage.everything() == [(0, n) for n in range(10)]

    played(story)


@pytest.mark.parametrize("seed", range(30))
def test_however_partitions_are_paused_and_resumed_each_record_comes_once_and_in_order(seed: int) -> None:
    async def story(stage: Stage) -> None:
        draw, consumer = Random(seed), stage.consumer
        ends = {A: 10, B: 10}
        found: dict[int, list[int]] = {0: [], 1: []}
        await consumer.assign([A, B])
        for _ in range(80):
            tp = draw.choice([A, B])
            match draw.randrange(5):
                case 0:
                    consumer.pause([tp])
                case 1:
                    consumer.resume([tp])
                case 2:
                    count = draw.randrange(1, 20)
                    stage.append(tp, count, ends[tp])
                    ends[tp] += count
                case _:
                    paused = {partition for _, partition in consumer.paused()}
                    for partition, offset in await stage.places(
                        draw.choice([0, 0, 700]), max_records=draw.choice([1, 7, 100])
                    ):
                        assert partition not in paused
                        found[partition].append(offset)
        consumer.resume([A, B])
        for partition, offset in await stage.everything():
            found[partition].append(offset)
        assert found == {0: list(range(ends[A])), 1: list(range(ends[B]))}
        assert consumer._core.reader._held == {}

    played(story)


def test_the_error_of_a_paused_partition_waits_too() -> None:
    async def story(stage: Stage) -> None:
        consumer = AsyncConsumer(
            [str(e) for e in stage.nodes.bootstrap],
            environment=fake_environment(stage.nodes.network),
            auto_offset_reset="none",
        )
        async with consumer:
            await consumer.assign([A, B])
            await consumer.seek(A, 99)
            await consumer.seek(B, 0)
            consumer.pause([A])
            assert len(await consumer.poll(timeout_ms=1_000)) == 10
            assert await consumer.poll(timeout_ms=1_000) == [] and await consumer.waiting_for() == ()
            consumer.resume([A])
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(timeout_ms=1_000)
            consumer.pause([A])
            assert await consumer.poll(timeout_ms=1_000) == []

    played(story)


def test_what_is_not_assigned_is_refused_and_nothing_is_paused() -> None:
    async def story(stage: Stage) -> None:
        await stage.consumer.assign([A])
        for call in (stage.consumer.pause, stage.consumer.resume):
            with pytest.raises(UnknownTopicOrPartitionError, match="t-1 is not assigned"):
                call([A, B])
            with pytest.raises(TypeError, match=r"give a list of TopicPartition"):
                call(A)  # type: ignore[arg-type]
        assert stage.consumer.paused() == []
        with pytest.raises(UnknownTopicOrPartitionError, match="t-1 is not assigned"):
            await stage.consumer.lag(B)

    played(story)


def test_the_lag_is_what_is_not_read_yet_also_before_the_first_fetch_and_of_a_paused_partition() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        await consumer.assign([A, B])
        assert [await consumer.lag(tp) for tp in (A, B)] == [10, 10]
        await stage.places(max_records=4)
        lags = [await consumer.lag(A), await consumer.lag(B)]
        assert sorted(lags) == [6, 10]
        await stage.everything()
        assert [await consumer.lag(tp) for tp in (A, B)] == [0, 0]
        consumer.pause([A])
        await asyncio.sleep(1)
        stage.append(A, 7)
        assert await consumer.lag(A) == 7
        await consumer.seek(B, 4)
        assert await consumer.lag(B) == 6

    played(story)


def test_metrics_have_kafkas_names_and_the_lag_of_each_partition_by_labels() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.consumer
        before = {metric.name: metric.value for metric in consumer.metrics()}
        assert before["assigned-partitions"] == 0 and "records-lag-max" not in before
        await consumer.assign([A, B])
        consumer.pause([B])
        assert len(await stage.places(max_records=4)) == 4
        *others, lag = consumer.metrics()
        numbers = {metric.name: metric.value for metric in others}
        assert (numbers["records-consumed-total"], numbers["records-lag-max"]) == (4, 6)
        assert (numbers["assigned-partitions"], numbers["paused-partitions"]) == (2, 1)
        assert numbers["fetch-total"] >= 1 and numbers["bytes-consumed-total"] > 0 and "records-lag" not in numbers
        assert (lag.name, lag.value, lag.group) == ("records-lag", 6, "consumer")
        assert lag.labels == {"client_id": "penstock", "group_id": "", "topic": "t", "partition": "0"}

    played(story)


def test_the_plain_face_does_the_same_and_counts_what_a_table_has() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic(TOPIC, 2)
        for partition in (0, 1):
            cluster.append(TOPIC, partition, build_batch([b"v"] * 3, timestamps_ms=0))
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([A, B])
            consumer.pause([A])
            assert consumer.paused() == [A] and consumer.lag(A) == 3
            assert consumer.poll_arrow(timeout_ms=5_000).num_rows == 3
            (given,) = (one.value for one in consumer.metrics() if one.name == "records-consumed-total")
            assert given == 3 == consumer.statistics().records
            consumer.resume([A])
            assert [r.partition for r in consumer.poll(timeout_ms=5_000)] == [0, 0, 0]
            assert consumer.lag(A) == 0
