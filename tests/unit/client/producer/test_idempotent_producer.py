"""Idempotent producers of every kind against a fake cluster: each record once and in order, whatever is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncProducer, Producer
from penstock.errors import (
    InvalidRecordError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    RequestTimedOutError,
    TimedOutError,
    UnsupportedVersionError,
)
from penstock.record.batch import read_header
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from storage.append.producer_state import KnownProducers
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_time import run_virtual

T0 = TopicPartition("t", 0)
OPTIONS: dict[str, Any] = {
    "enable_idempotence": True,
    "linger_ms": 0,
    "retry_backoff_ms": 1,
    "batch_size": 2_000,
    "request_timeout_ms": 1_000,
}
VALUES = [b"%04d" % n for n in range(1_000)]


def stored(cluster: FakeCluster, tp: TopicPartition = T0) -> list[bytes | None]:
    return [r.value for _, _, data, _ in cluster.logs[tp].batches for r in read_records(data)]


def played(story: Callable[[FakeCluster, AsyncProducer], Awaitable[None]], **options: Any) -> None:
    """On two nodes; node 1 leads partition 0 of the topic "t", node 2 partition 1."""

    async def run() -> None:
        network = FakeNetwork(0, (1, 3))
        with FakeCluster(2, host=MemoryHost(network)) as cluster:
            cluster.create_topic("t", 2)
            producer = AsyncProducer(cluster.bootstrap, environment=fake_environment(network), **{**OPTIONS, **options})
            try:
                await story(cluster, producer)
            finally:
                await producer.close(timeout=0)

    run_virtual(run())


async def send_all(producer: AsyncProducer) -> list[Any]:
    return [await producer.send("t", value, partition=0) for value in VALUES]


def check(cluster: FakeCluster, producer: AsyncProducer | Producer, futures: list[Any]) -> None:
    assert stored(cluster) == VALUES
    assert [future.result(0).offset for future in futures] == list(range(len(VALUES)))
    assert producer.statistics().possible_duplicates == 0


def test_several_batches_of_a_partition_are_on_their_way_at_once() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.silence(1)
        await send_all(producer)
        await asyncio.sleep(0.1)
        assert producer.statistics().requests_in_flight == 5
        headers = [read_header(request.partitions[0].records) for _, request in cluster.produced]
        assert [header.base_sequence for header in headers] == [
            header.record_count * n for n, header in enumerate(headers)
        ]

    played(story)


@pytest.mark.parametrize("times", [1, 3])
def test_after_a_broken_stream_nothing_is_written_twice(times: int) -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.silence(1)
        futures = await send_all(producer)
        for _ in range(times):
            await asyncio.sleep(0.1)
            cluster.break_streams(1)
        cluster.silence(1, on=False)
        await producer.flush()
        check(cluster, producer, futures)
        assert producer.statistics().batches_retried >= 4 + times

    played(story)


def test_errors_that_leave_the_outcome_open_write_nothing_twice() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        open_errors = NotEnoughReplicasAfterAppendError(), NotEnoughReplicasError(), RequestTimedOutError()
        cluster.fail_produce("t", 0, *open_errors * 3)
        futures = await send_all(producer)
        await producer.flush()
        check(cluster, producer, futures)

    played(story)


def test_a_leader_that_moves_takes_order_and_memory_along() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        futures: list[Any] = []
        for n, value in enumerate(VALUES):
            futures.append(await producer.send("t", value, partition=0))
            if n % 100 == 50:
                await asyncio.sleep(0.004)
                cluster.move_leader("t", 0, 1 + n % 2)
        await producer.flush()
        check(cluster, producer, futures)

    played(story)


def test_a_request_that_is_never_answered_is_sent_again_and_written_once() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.silence(1)
        cluster.on_produce = lambda node, _: cluster.silence(1, on=False) if len(cluster.produced) == 7 else None
        futures = await send_all(producer)
        await producer.flush()
        check(cluster, producer, futures)

    played(story)


def test_a_batch_that_is_too_large_is_halved_in_its_place() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.fail_produce("t", 0, *[MessageTooLargeError()] * 4)
        futures = await send_all(producer)
        await producer.flush()
        check(cluster, producer, futures)

    played(story)


def test_a_refused_batch_takes_none_behind_it_along() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.fail_produce("t", 0, InvalidRecordError("not this one"))
        futures = await send_all(producer)
        await producer.flush()
        failed = [index for index, future in enumerate(futures) if isinstance(future.exception(0), InvalidRecordError)]
        assert failed == list(range(len(failed))) and len(failed) > 1
        assert stored(cluster) == VALUES[len(failed) :] and producer.statistics().possible_duplicates == 0

    played(story)


def test_a_log_that_forgot_the_producer_gets_a_new_epoch() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        await (await producer.send("t", b"first", partition=0))
        cluster.logs[T0].producers = KnownProducers()
        assert (await (await producer.send("t", b"second", partition=0))).offset == 1
        header = read_header(cluster.logs[T0].batches[-1][2])
        assert (header.producer_epoch, header.base_sequence) == (1, 0)
        assert producer.statistics().possible_duplicates == 0

    played(story)


def test_in_a_topic_made_anew_the_sequences_begin_anew() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        for value in VALUES[:3]:
            await (await producer.send("t", value, partition=0))
        cluster.delete_topic("t")
        cluster.create_topic("t", 2)
        futures = [await producer.send("t", value, partition=0) for value in VALUES]
        await producer.flush()
        check(cluster, producer, futures)

    played(story)


def test_what_may_be_written_in_two_epochs_is_counted() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        await (await producer.send("t", b"first", partition=0))
        cluster.fail_produce("t", 0, NotEnoughReplicasAfterAppendError())

        def forget(node_id: int, request: object) -> None:
            if len(cluster.produced) == 3:
                cluster.logs[T0].producers = KnownProducers()

        cluster.on_produce = forget
        await (await producer.send("t", b"second", partition=0))
        assert stored(cluster) == [b"first", b"second", b"second"]
        assert producer.statistics().possible_duplicates == 1

    played(story)


def test_partitions_share_a_producer_id_that_is_asked_for_once() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.producer_id_refusals += [NetworkError("broken")] * 5
        for future in [await producer.send("t", b"v", partition=partition) for partition in (0, 1, 0)]:
            await future
        assert cluster.producer_ids_given == 1
        assert stored(cluster) == [b"v", b"v"]

    played(story)


def test_without_a_producer_id_a_record_fails_in_time_and_says_why() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.producer_id_refusals += [NetworkError("not today")] * 10_000
        future = await producer.send("t", b"v", partition=0)
        await asyncio.sleep(1)
        assert [str(wait) for wait in await producer.waiting_for()] == [
            "t-0: a producer id, which brokers get from the controller"
        ]
        with pytest.raises(TimedOutError, match=r"the cluster has given no producer id: .*not today"):
            await future

    played(story, delivery_timeout_ms=5_000)


def test_brokers_that_know_no_producer_ids_are_named_with_the_remedy() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.producer_id_refusals.append(UnsupportedVersionError("the broker is older"))
        with pytest.raises(UnsupportedVersionError, match="older; set enable_idempotence=False"):
            await (await producer.send("t", b"v", partition=0))
        await (await producer.send("t", b"v", partition=0))

    played(story)


def test_without_idempotence_one_batch_is_on_its_way_and_may_be_written_twice() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer) -> None:
        cluster.silence(1)
        await send_all(producer)
        await asyncio.sleep(0.1)
        assert producer.statistics().requests_in_flight == 1
        cluster.silence(1, on=False)
        cluster.break_streams(1)
        await producer.flush()
        copies = len(stored(cluster)) - len(VALUES)
        assert copies > 0 and producer.statistics().possible_duplicates == copies and cluster.producer_ids_given == 0

    played(story, enable_idempotence=False)


@pytest.mark.parametrize("in_bulk", [True, False])
def test_the_plain_producer_writes_each_record_once(in_bulk: bool) -> None:
    open_error = NotEnoughReplicasAfterAppendError("the leader has changed")
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.fail_produce("t", 0, *[open_error] * 4)
        with Producer(cluster.bootstrap, **OPTIONS) as producer:
            if in_bulk:
                parts = producer.send_many("t", VALUES).ranges(10)
                assert [part.first_offset for part in parts[1:]] == [part.last_offset + 1 for part in parts[:-1]]
            else:
                for value in VALUES:
                    producer.send("t", value)
                producer.flush(10)
            assert producer.statistics().batches_retried >= 4 and producer.statistics().possible_duplicates == 0
        assert stored(cluster) == VALUES
