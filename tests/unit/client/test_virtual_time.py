"""Whole clients on a loop of virtual time over a network in memory: what waits takes its time, and no time of ours.

The clients are the ones that users import; only their environment is another. A seed is a whole story.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from penstock.client.producer.future import RecordFuture
from penstock.errors import (
    BufferExhaustedError,
    InvalidTopicError,
    NotEnoughReplicasError,
    TimedOutError,
    UnknownTopicOrPartitionError,
)
from penstock.record.reader import read_records
from penstock.types import RecordMetadata
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_background import plain_environment
from tests.support.virtual_time import VirtualTimeLoop, run_virtual, virtual_clock

ROOT = Path(__file__).resolve().parents[3]
TP = TopicPartition("t", 0)


@dataclass
class Stage:
    """A fake cluster with the topic "t" of one partition, and clients of it."""

    cluster: FakeCluster
    network: FakeNetwork
    seed: int
    clock: VirtualTimeLoop = field(default_factory=virtual_clock)

    def producer(self, **options: Any) -> AsyncProducer:
        return AsyncProducer(self.cluster.bootstrap, environment=fake_environment(self.network, self.seed), **options)

    def consumer(self, **options: Any) -> AsyncConsumer:
        options = {"auto_offset_reset": "earliest", **options}
        return AsyncConsumer(self.cluster.bootstrap, environment=fake_environment(self.network, self.seed), **options)

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(self.cluster.bootstrap, environment=fake_environment(self.network, self.seed))

    async def took_ms(self, work: Awaitable[object]) -> int:
        began_ms = self.clock.now_ms()
        await work
        return self.clock.now_ms() - began_ms

    def values(self) -> list[bytes | None]:
        return [r.value for _, _, data, _ in self.cluster.logs[TP].batches for r in read_records(data)]


def played(
    story: Callable[[Stage], Awaitable[None]], *, nodes: int = 1, seed: int = 0, latency_ms: tuple[int, int] = (0, 0)
) -> None:
    async def run() -> None:
        network = FakeNetwork(seed, latency_ms)
        with FakeCluster(nodes, host=MemoryHost(network)) as cluster:
            cluster.create_topic("t")
            await story(Stage(cluster, network, seed))

    run_virtual(run())


def test_a_batch_lingers_exactly_as_long_as_it_was_told() -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=250) as producer:
            await (await producer.send("t", b"first"))
            futures = [await producer.send("t", b"a")]
            await asyncio.sleep(0.1)
            futures.append(await producer.send("t", b"b"))
            assert len(stage.cluster.produced) == 1
            assert await stage.took_ms(asyncio.gather(*futures)) == 150
            assert len(stage.cluster.produced) == 2 and stage.values() == [b"first", b"a", b"b"]

    played(story)


def test_what_is_refused_is_tried_again_after_longer_and_longer_waits() -> None:
    times_ms: list[int] = []

    async def story(stage: Stage) -> None:
        stage.cluster.on_produce = lambda node, request: times_ms.append(stage.clock.now_ms())
        stage.cluster.fail_produce("t", 0, *[NotEnoughReplicasError("one is missing")] * 6)
        async with stage.producer(linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=1_000) as producer:
            await (await producer.send("t", b"v"))
            assert stage.values() == [b"v"] and producer.statistics().batches_retried == 6

    played(story)
    waits = [after - before for before, after in itertools.pairwise(times_ms)]
    for wait, full in zip(waits, [100, 200, 400, 800, 1_000, 1_000], strict=True):
        assert full * 4 // 5 <= wait <= full + 1


def test_a_request_that_is_not_answered_is_given_up_at_its_time_out() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.silence(1)
        options = {"linger_ms": 0, "request_timeout_ms": 3_000, "retry_backoff_ms": 100}
        async with stage.producer(**options) as producer:
            future = await producer.send("t", b"v")
            await asyncio.sleep(2)
            stage.cluster.silence(1, on=False)
            assert 1_000 <= await stage.took_ms(future) <= 1_101
            assert producer.statistics().possible_duplicates == 0 and stage.values() == [b"v"]

    played(story)


def test_a_record_that_nobody_acks_fails_at_its_delivery_time_out() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.silence(1)
        options = {"linger_ms": 0, "request_timeout_ms": 30_000, "delivery_timeout_ms": 60_000}
        producer = stage.producer(**options)
        future = await producer.send("t", b"v")

        async def fails() -> None:
            with pytest.raises(TimedOutError, match="not acked within delivery_timeout_ms=60000"):
                await future

        assert 60_000 <= await stage.took_ms(fails()) <= 60_002
        await producer.close(timeout=1)

    played(story)


def test_records_behind_one_that_nobody_answers_fail_at_their_own_delivery_time_outs() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.silence(1)
        producer = stage.producer(linger_ms=0, request_timeout_ms=5_000, delivery_timeout_ms=20_000)
        waits: list[asyncio.Future[int]] = []
        for _ in range(3):
            waits.append(asyncio.ensure_future(stage.took_ms(_failure(await producer.send("t", b"v")))))
            await asyncio.sleep(3.3)
        assert all(20_000 <= took_ms <= 20_005 for took_ms in await asyncio.gather(*waits[:1]))
        assert all(took_ms <= 20_005 for took_ms in await asyncio.gather(*waits))
        await producer.close(timeout=1)

    played(story)


async def _failure(future: RecordFuture) -> None:
    with pytest.raises(TimedOutError):
        await future


def test_the_delivery_time_out_holds_while_a_request_waits_for_longer() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.silence(1)
        async with stage.producer(linger_ms=0, request_timeout_ms=30_000, delivery_timeout_ms=15_000) as producer:
            future = await producer.send("t", b"v")

            async def fails() -> None:
                with pytest.raises(TimedOutError, match="within delivery_timeout_ms=15000"):
                    await future

            assert 15_000 <= await stage.took_ms(fails()) <= 16_000
            stage.cluster.silence(1, on=False)
            assert await stage.took_ms(await producer.send("t", b"next")) <= 1_000
            statistics = producer.statistics()
            assert (statistics.records_acked, statistics.records_failed) == (1, 1)

    played(story)


def test_clients_follow_a_leader_that_moved() -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=0) as producer, stage.consumer() as consumer:
            await consumer.assign([TP])
            await (await producer.send("t", b"at 1"))
            assert [r.value for r in await consumer.poll(1_000)] == [b"at 1"]
            stage.cluster.move_leader("t", 0, 2)
            await (await producer.send("t", b"at 2"))
            assert [r.value for r in await consumer.poll(60_000)] == [b"at 2"]
        assert [node for node, _ in stage.cluster.produced] == [1, 1, 2], "the refusal named the new leader"

    played(story, nodes=3)


def test_clients_ask_around_a_leader_that_hangs() -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=0) as producer, stage.consumer() as consumer:
            await consumer.assign([TP])
            await (await producer.send("t", b"at 1"))
            assert [r.value for r in await consumer.poll(1_000)] == [b"at 1"]
            stage.network.hang(stage.cluster.endpoints[1])
            stage.cluster.move_leader("t", 0, 2)
            future = await producer.send("t", b"at 2")
            assert await stage.took_ms(future) <= 3_000
            assert [r.value for r in await consumer.poll(10_000)] == [b"at 2"]

    played(story, nodes=3)


def test_a_producer_that_is_not_answered_says_so_now_and_then_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=0) as producer:
            await (await producer.send("t", b"at once"))
            stage.network.hang(stage.cluster.endpoints[1])
            future = await producer.send("t", b"late")
            await asyncio.sleep(4.9)
            assert not caplog.records
            await asyncio.sleep(32)
            stage.network.resume(stage.cluster.endpoints[1])
            await future
            await asyncio.sleep(60)

    with caplog.at_level(logging.WARNING, "penstock.client.producer"):
        played(story)
    logged = [record.getMessage() for record in caplog.records if record.name == "penstock.client.producer.stalled"]
    assert [text[:29] for text in logged[:2]] == ["nothing is acked for 5 s: t-0", "nothing is acked for 35 s: t-"], (
        logged
    )
    assert logged[0].endswith("; the producer keeps trying") and "broker 1 at " in logged[0]
    assert logged[2:] == ["records are acked again after 36 s"]


def test_records_that_fail_in_time_are_not_said_to_be_acked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=0, delivery_timeout_ms=20_000, request_timeout_ms=15_000) as producer:
            await (await producer.send("t", b"at once"))
            stage.network.hang(stage.cluster.endpoints[1])
            futures = []
            for _ in range(10):
                futures.append(await producer.send("t", b"late"))
                await asyncio.sleep(4)
            with pytest.raises(TimedOutError):
                await futures[0]
            stage.network.resume(stage.cluster.endpoints[1])
            await futures[-1]

    with caplog.at_level(logging.WARNING, "penstock.client.producer"):
        played(story)
    logged = [record.getMessage() for record in caplog.records if record.name == "penstock.client.producer.stalled"]
    assert logged[0].startswith("nothing is acked for 5 s: t-0"), logged
    assert ["again" in text for text in logged] == [False] * (len(logged) - 1) + [True], logged


def test_a_poll_waits_for_its_time_and_no_longer() -> None:
    async def story(stage: Stage) -> None:
        async with stage.consumer(fetch_max_wait_ms=500) as consumer:
            await consumer.assign([TP])
            assert await stage.took_ms(consumer.poll(12_345)) == 12_345

    played(story)


def test_an_admin_creates_and_deletes_topics_over_any_transport() -> None:
    async def story(stage: Stage) -> None:
        async with stage.admin() as admin:
            await admin.create_topic("made", partitions=2)
            assert await admin.list_topics() == ["made", "t"]
            await admin.delete_topic("made")
            assert await admin.list_topics() == ["t"]

    played(story, nodes=3, latency_ms=(1, 20))


# -- stories drawn from a seed -----------------------------------------------------------------------------------------

RECORDS = 150


async def disturb(stage: Stage, chance: random.Random) -> None:
    """Leaders move, nodes hang, streams break, processes die and come back, for ever."""
    cluster, network = stage.cluster, stage.network
    while True:
        await asyncio.sleep(chance.uniform(0.1, 2))
        node = chance.choice(cluster.node_ids)
        match chance.randrange(4):
            case 0:
                cluster.move_leader("t", 0, node)
            case 1:
                cluster.break_streams(node)
            case 2:
                network.hang(cluster.endpoints[node])
                await asyncio.sleep(chance.uniform(0.1, 3))
                network.resume(cluster.endpoints[node])
            case 3:
                cluster.stop_node(node)
                await asyncio.sleep(chance.uniform(0.1, 1))
                cluster.start_node(node)


async def send_all(stage: Stage, chance: random.Random, events: list[tuple[int, str]]) -> list[RecordMetadata]:
    futures: list[RecordFuture] = []
    async with stage.producer(linger_ms=5, request_timeout_ms=2_000) as producer:
        for number in range(RECORDS):
            future = await producer.send("t", b"%d" % number)
            future.add_done_callback(lambda _, number=number: events.append((stage.clock.now_ms(), f"acked {number}")))
            futures.append(future)
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.05, 0.2)))
    return [future.result(0) for future in futures]


async def read_all(stage: Stage, events: list[tuple[int, str]]) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    async with stage.consumer(request_timeout_ms=2_000) as consumer:
        await consumer.assign([TP])
        while b"%d" % (RECORDS - 1) not in found.values():
            for record in await consumer.poll(1_000, max_records=7):
                assert record.offset not in found, "given twice"
                found[record.offset] = record.value
                events.append((stage.clock.now_ms(), f"read {record.offset}"))
    return found


def events_of(seed: int) -> list[Any]:
    """Everything that happened in the story of a seed, and when."""
    events: list[Any] = []

    async def story(stage: Stage) -> None:
        chance = random.Random(seed)
        trouble = asyncio.ensure_future(disturb(stage, chance))
        async with asyncio.timeout(600):
            acked, read = await asyncio.gather(send_all(stage, chance, events), read_all(stage, events))
        trouble.cancel()
        await asyncio.gather(trouble, return_exceptions=True)
        log = stage.values()
        assert [log[metadata.offset] for metadata in acked] == [b"%d" % number for number in range(RECORDS)]
        assert [metadata.offset for metadata in acked] == sorted(metadata.offset for metadata in acked)
        assert read == dict(enumerate(log[: len(read)])), "without a gap, in order"
        events.extend(stage.network.asked)

    played(story, nodes=3, seed=seed, latency_ms=(1, 40))
    return events


@pytest.mark.parametrize("seed", range(6))
def test_whatever_breaks_every_record_is_acked_and_read(seed: int) -> None:
    assert len(events_of(seed)) > 2 * RECORDS


def test_a_seed_is_a_whole_story() -> None:
    assert events_of(1) == events_of(1)
    assert events_of(1) != events_of(2)


@pytest.mark.long  # test_memory_cluster.py has clients and nodes tell the same in every process
def test_a_seed_is_the_same_story_in_every_process() -> None:
    """Nothing depends on where objects lie in memory, or on how strings are hashed."""
    code = """
import hashlib
from tests.unit.client.test_virtual_time import events_of
print(hashlib.sha256(repr([events_of(seed) for seed in (8, 12, 16)]).encode()).hexdigest())
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "77")
    ]
    hashes = {child.communicate(timeout=380)[0] for child in children}
    assert len(hashes) == 1 and "" not in hashes


# -- plain clients -----------------------------------------------------------------------------------------------------


def test_plain_clients_wait_in_virtual_time_too() -> None:
    loop, network = VirtualTimeLoop(), FakeNetwork(latency_ms=(1, 5))
    with FakeCluster(3, host=MemoryHost(network)) as cluster:
        cluster.create_topic("t")
        environment = plain_environment(loop, network)
        began_ms = loop.now_ms()
        with (
            Producer(cluster.bootstrap, environment=environment, linger_ms=2_000) as producer,
            Consumer(cluster.bootstrap, environment=environment, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TP])
            assert producer.send("t", b"a").result(timeout=60).offset == 0
            assert 2_000 <= loop.now_ms() - began_ms <= 2_100, "a result waits for the batch to linger"
            cluster.move_leader("t", 0, 3)
            producer.send("t", b"b")
            producer.send_many("t", [b"c", b"d"]).result(timeout=60)
            producer.flush(timeout=60)
            cluster.silence(3)
            with pytest.raises(TimedOutError, match="not acked within 5"):
                producer.send("t", b"late").result(timeout=5)
            cluster.silence(3, on=False)
            found: list[bytes | None] = []
            while len(found) < 4:
                found += [record.value for record in consumer.poll(timeout_ms=60_000)]
            assert found[:4] == [b"a", b"b", b"c", b"d"]
        with Admin(cluster.bootstrap, environment=environment) as admin:
            assert admin.list_topics() == ["t"]
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_a_plain_producer_waits_for_memory_as_long_as_it_was_told() -> None:
    loop, network = VirtualTimeLoop(), FakeNetwork()
    with FakeCluster(1, host=MemoryHost(network)) as cluster:
        cluster.create_topic("t")
        cluster.silence(1)
        options = {"buffer_memory": 1_000, "batch_size": 500, "max_block_ms": 7_000, "linger_ms": 0}
        producer = Producer(cluster.bootstrap, environment=plain_environment(loop, network), **options)
        began_ms = loop.now_ms()
        with pytest.raises(BufferExhaustedError):
            for _ in range(10):
                producer.send("t", b"v" * 200)
        assert 7_000 <= loop.now_ms() - began_ms <= 7_600
        producer.close(timeout=1)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_a_record_that_is_refused_until_the_end_fails_at_its_delivery_time_out_and_not_a_back_off_earlier() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.fail_produce("t", 0, *[NotEnoughReplicasError("one is missing")] * 50)
        options = {"linger_ms": 0, "retry_backoff_ms": 500, "retry_backoff_max_ms": 2_500}
        async with stage.producer(delivery_timeout_ms=3_000, **options) as producer:
            future = await producer.send("t", b"v")

            async def fails() -> None:
                with pytest.raises(TimedOutError, match=r"within delivery_timeout_ms=3000 .* one is missing"):
                    await future

            assert 3_000 <= await stage.took_ms(fails()) <= 3_002

    played(story)


def test_what_waits_for_a_topic_that_was_deleted_is_said_to_and_fails_so() -> None:
    async def story(stage: Stage) -> None:
        async with stage.producer(linger_ms=0, delivery_timeout_ms=20_000) as producer:
            await (await producer.send("t", b"v"))
            stage.cluster.delete_topic("t")
            future = await producer.send("t", b"w")
            await asyncio.sleep(5)
            (waiting,) = await producer.waiting_for()
            assert str(waiting) == "t-0: topic 't' does not exist any more: was it deleted?"
            message = (
                r"t-0: 1 records not acked within delivery_timeout_ms=20000 .*; topic 't' does not exist any more: was"
            )
            with pytest.raises(TimedOutError, match=message):
                await future
            with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' does not exist"):
                await producer.send("t", b"x")

    played(story)


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "é", "__cluster_metadata"])
def test_a_name_that_no_topic_can_have_is_refused_at_once_and_not_asked_for(name: str) -> None:
    async def story(stage: Stage) -> None:
        producer, consumer, admin = stage.producer(), stage.consumer(), stage.admin()

        async def refused() -> None:
            with pytest.raises(InvalidTopicError, match="topic name"):
                await producer.send(name, b"v")
            with pytest.raises(InvalidTopicError, match="topic name"):
                await consumer.partitions_for(name)
            with pytest.raises(InvalidTopicError, match="topic name"):
                await consumer.assign([TopicPartition(name, 0)])
            with pytest.raises(InvalidTopicError, match="topic name"):
                await admin.list_offsets([TopicPartition(name, 0)])

        assert await stage.took_ms(refused()) == 0
        for client in (producer, consumer, admin):
            await client.close()

    played(story)


def test_whole_numbers_of_numpy_are_partitions_and_times() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.create_topic("two", 2)
        async with stage.producer(linger_ms=0) as producer:
            time_ms = np.int64(1_700_000_000_000)
            place = await (await producer.send("two", b"v", partition=np.int32(1), timestamp_ms=time_ms))
            assert (place.partition, place.timestamp_ms) == (1, 1_700_000_000_000)
            assert type(place.partition) is int and type(place.timestamp_ms) is int
            await (await producer.send_many("two", [b"a", b"b"], partition=np.int64(1), timestamp_ms=time_ms))
            assert stage.cluster.logs[TopicPartition("two", 1)].end_offset == 3
            with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 1, not 2"):
                await producer.send("two", b"v", partition=np.int64(2))
            for wrong in (np.float64(1), np.bool_(True), True, "1"):
                with pytest.raises(TypeError, match="partition must be an int"):
                    await producer.send("two", b"v", partition=wrong)  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="timestamp_ms must be an int"):
                    await producer.send("two", b"v", timestamp_ms=wrong)  # type: ignore[arg-type]

    played(story)
