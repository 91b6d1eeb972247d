"""Clients at work while their topic gets more partitions: producers find them, consumers read them from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

import pytest

from penstock import AsyncProducer, Consumer, Producer, TopicPartition
from penstock.client.producer.partitioner import partition_for_key
from penstock.errors import UnknownTopicOrPartitionError
from penstock.record.batch import BatchHeader, read_header
from penstock.record.builder import build_batch
from tests.support.fake_broker import FakeCluster

T2 = TopicPartition("t", 2)
KEYS = [b"key-%d" % number for number in range(40)]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        found.create_topic("t", 2)
        yield found


def grow(cluster: FakeCluster) -> None:
    cluster.add_partition("t", 2, 1)


def test_a_producer_that_is_given_a_partition_it_does_not_know_asks_for_it(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        producer.send("t", b"old", partition=1).result(60)
        grow(cluster)
        assert producer.send("t", b"new", partition=2).result(60).partition == 2
        assert producer.send_many("t", [b"more"], partition=2).result(60) == 1
        for send in (producer.send, producer.send_many):
            with pytest.raises(UnknownTopicOrPartitionError, match="'t' has partitions 0 to 2, not 3"):
                send("t", [b"none"] if send == producer.send_many else b"none", partition=3)
    assert cluster.logs[T2].end_offset == 2


def test_the_bulk_of_a_producer_finds_a_new_partition_too(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("t", [b"old"], partition=0).result(60)
        grow(cluster)
        producer.send_many("t", [b"new"], partition=2).result(60)
    assert cluster.logs[T2].end_offset == 1


def test_an_async_producer_does_the_same(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        async with AsyncProducer(cluster.bootstrap, linger_ms=0) as producer:
            await (await producer.send("t", b"old", partition=0))
            grow(cluster)
            assert (await (await producer.send("t", b"new", partition=2))).partition == 2
            await (await producer.send_many("t", [b"more"], partition=2))
            with pytest.raises(UnknownTopicOrPartitionError, match="0 to 2, not 9"):
                await producer.send("t", b"none", partition=9)

    asyncio.run(scenario())
    assert cluster.logs[T2].end_offset == 2


def test_keys_are_mapped_to_all_partitions_once_the_producer_has_heard_of_them(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=0) as producer:

        def partitions() -> list[int]:
            return [producer.send("t", b"v", key=key).result(60).partition for key in KEYS]

        assert partitions() == [partition_for_key(key, 2) for key in KEYS]
        grow(cluster)
        producer.send("t", b"v", partition=2).result(60)  # from now on it has heard
        assert partitions() == [partition_for_key(key, 3) for key in KEYS]
        assert {producer.send("t", b"v").result(60).partition for _ in range(12)} == {0, 1, 2}, "without a key, too"
    written = [(header.producer_id, header.base_sequence) for header in headers(cluster, TopicPartition("t", 0))]
    assert len({producer_id for producer_id, _ in written}) == 1
    assert [sequence for _, sequence in written] == list(range(len(written))), "sequences of an old partition go on"


def headers(cluster: FakeCluster, tp: TopicPartition) -> list[BatchHeader]:
    return [read_header(data) for _, _, data, _ in cluster.logs[tp].batches]


@pytest.mark.parametrize("reset", ["latest", "earliest"])
def test_a_consumer_begins_a_new_partition_at_its_first_record(
    cluster: FakeCluster, reset: Literal["latest", "earliest"]
) -> None:
    """The record came between the partition's creation and its assignment."""
    with Consumer(cluster.bootstrap, auto_offset_reset=reset) as consumer:
        consumer.assign(consumer.partitions_for("t"))
        for tp in consumer.assignment():
            consumer.position(tp)
        grow(cluster)
        cluster.append("t", 2, build_batch([b"new"], timestamps_ms=1))
        consumer.assign([*consumer.assignment(), T2])
        assert consumer.position(T2) == 0
        assert [record.value for record in consumer.poll(timeout_ms=5_000)] == [b"new"]
