"""Topics that nobody uses are forgotten, with all that a client keeps of them, and nothing is lost or doubled by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from penstock import AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.pending_record import PendingRecord
from penstock.client.producer.sequences import EPOCH_MAX
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from tests.support.client_environment import fake_environment, pool_of, stepped_threads
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.fake_transactions import FakeTransactions
from tests.support.virtual_time import run_virtual

IDLE_MS, AGE_MS = 5_000, 1_000
IDLE_S = (IDLE_MS + 2 * AGE_MS) / 1_000
TP = TopicPartition("t", 0)


class Bench:
    """One node; its clients ask for the metadata each second."""

    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.cluster = FakeCluster(1, host=MemoryHost(self.network)).__enter__()

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "environment": fake_environment(self.network),
            "metadata_max_age_ms": AGE_MS,
            "metadata_max_idle_ms": IDLE_MS,
            **options,
        }

    def producer(self, **options: Any) -> AsyncProducer:
        return AsyncProducer(self.cluster.bootstrap, **self._options(options))

    def consumer(self, **options: Any) -> AsyncConsumer:
        return AsyncConsumer(self.cluster.bootstrap, **self._options(options))

    def written(self, tp: TopicPartition = TP) -> list[bytes | None]:
        return [r.value for _, _, data, _ in self.cluster.logs[tp].batches for r in read_records(data)]


def run(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Bench())

    run_virtual(main())


def kept(producer: AsyncProducer) -> tuple[list[str], list[TopicPartition], list[str]]:
    """Topics that are asked for, partitions with a queue, topics in the cache and in the ways of `send`."""
    core = producer._core
    ways = {*core.partitions.sticky, *core.partitions.keyed, *core.partitions._sticky_queues}
    return core.cluster.tracked.names(), sorted(core.partitions._queues), sorted({*core.cluster.cache._topics, *ways})


def test_a_topic_that_does_not_exist_any_more_is_forgotten_with_the_next_answer() -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer() as producer:
            for number in range(20):
                name = f"hourly-{number}"
                bench.cluster.create_topic(name, 2)
                for key in (None, b"key"):
                    await (await producer.send(name, b"v", key))
                bench.cluster.delete_topic(name)
            await asyncio.sleep(2 * AGE_MS / 1_000)
            assert kept(producer) == ([], [], [])

    run(story)


def test_an_idle_topic_is_forgotten_and_asked_for_when_it_is_used_again() -> None:
    async def story(bench: Bench) -> None:
        bench.cluster.create_topic("t")
        bench.cluster.create_topic("busy")
        async with bench.producer(linger_ms=0) as producer:
            for number in range(3):
                for _ in range(4):
                    assert (await (await producer.send("t", b"%d" % number))).partition == 0
                for _ in range(10):
                    await (await producer.send("busy", b"v"))
                    await asyncio.sleep(IDLE_S / 10)
                topics, partitions, known = kept(producer)
                assert topics == known == ["busy"] and partitions == [TopicPartition("busy", 0)]
            assert bench.written() == [b"0"] * 4 + [b"1"] * 4 + [b"2"] * 4
            assert producer.statistics().possible_duplicates == 0

    run(story)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_forgotten_goes_on_once_and_in_order(seed: int) -> None:
    """The broker checks the sequences of idempotent producers."""

    async def story(bench: Bench) -> None:
        source = Random(seed)
        bench.cluster.create_topic("t", 3)
        sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        async with bench.producer(linger_ms=0, batch_size=200) as producer:
            for number in range(40):
                partition = source.randrange(3)
                for _ in range(source.randrange(1, 8)):
                    sent[partition].append(b"%060d" % (1000 * number + len(sent[partition])))
                    await producer.send("t", sent[partition][-1], partition=partition)
                if source.random() < 0.2:
                    bench.cluster.break_streams(1)
                await asyncio.sleep(source.choice((0, 0.01, 0.5, IDLE_S, 2 * IDLE_S)))
            await producer.flush()
            assert producer.statistics().possible_duplicates == producer.statistics().records_failed == 0
        assert [bench.written(TopicPartition("t", p)) for p in range(3)] == [sent[p] for p in range(3)]

    run(story)


def test_where_no_epoch_is_left_a_forgotten_partition_begins_with_another_producer_id() -> None:
    async def story(bench: Bench) -> None:
        bench.cluster.create_topic("t")
        async with bench.producer(linger_ms=0) as producer:
            await (await producer.send("t", b"1"))
            producer._core.partitions._used_epochs[0] = EPOCH_MAX - 1
            await asyncio.sleep(IDLE_S)
            await (await producer.send("t", b"2"))
            await asyncio.sleep(IDLE_S)
            await (await producer.send("t", b"3"))
        assert bench.written() == [b"1", b"2", b"3"] and bench.cluster.producer_ids_given == 2

    run(story)


def test_what_waits_is_not_forgotten() -> None:
    async def story(bench: Bench) -> None:
        bench.cluster.create_topic("t")
        async with bench.producer(linger_ms=0) as producer:
            bench.cluster.stand_still("t", 0)
            future = await producer.send("t", b"v")
            await asyncio.sleep(3 * IDLE_S)
            assert kept(producer)[0] == ["t"]
            bench.cluster.stand_still("t", 0, False)
            await future

    run(story)


def test_a_consumer_keeps_what_is_assigned_to_it() -> None:
    async def story(bench: Bench) -> None:
        bench.cluster.create_topic("t")
        bench.cluster.create_topic("other")
        async with bench.consumer() as consumer:
            await consumer.assign([TP, TopicPartition("other", 0)])
            await asyncio.sleep(2 * IDLE_S)
            assert consumer._core.cluster.tracked.names() == ["other", "t"]
            await consumer.assign([TP])
            await asyncio.sleep(IDLE_S)
            assert consumer._core.cluster.tracked.names() == ["t"]

    run(story)


def test_a_caller_that_has_the_queue_in_hand_gets_the_new_one() -> None:
    config = AccumulatorConfig(10_000, 0, Codec.NONE, idempotent_in_flight_max=5)
    accumulator = Accumulator(config, pool_of(1 << 20), stepped_threads())
    stale = accumulator.partitions.queue(TP)
    accumulator.partitions.forget_topic("t")
    accumulator.try_append(stale, PendingRecord.of(None, b"v", (), None), 0, 0)
    bulk = ProducerBatch(TP, 0, 0, stepped_threads())
    bulk.set_encoded(b"bytes", 1)
    accumulator.append_bulk(stale, bulk)
    assert stale.waiting == 0 and accumulator.partitions.queue(TP) is not stale
    assert [batch.record_count for batch in accumulator.partitions.queue(TP).ready] == [1, 1]
    accumulator.partitions.forget_topic("t")
    assert accumulator.partitions.queue(TP).waiting == 2, "it has something to send"


def test_a_topic_of_an_open_transaction_is_not_forgotten_before_its_end() -> None:
    async def story(bench: Bench) -> None:
        bench.cluster.create_topic("t", 1)
        bench.cluster.create_topic("other", 1)
        bench.cluster.transactions = FakeTransactions(bench.cluster)
        producer = bench.producer(transactional_id="tx", linger_ms=0)
        async with producer.transaction() as t:
            for number in range(3):
                await (await t.send("t", b"%d" % number))
                await asyncio.sleep(IDLE_S)
        assert [value for value in bench.written() if value != bytes(6)] == [b"0", b"1", b"2"]
        for _ in range(int(2 * IDLE_S)):
            async with producer.transaction() as t:
                await t.send("other", b"a")
            await asyncio.sleep(1)
        assert TP not in producer._core.partitions._queues
        await producer.close()

    run(story)
