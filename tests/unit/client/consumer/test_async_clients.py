"""The async twins do the same with await, on the caller's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.errors import BootstrapError, BufferExhaustedError, ClientClosedError, TimedOutError
from tests.support.fake_broker import FakeCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        found.create_topic("t", 2)
        yield found


def test_a_record_goes_round(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        async with AsyncProducer(cluster.bootstrap, linger_ms=0) as producer:
            future = await producer.send("t", b"v", key=b"k", partition=0)
            assert (await future).offset == 0
            bulk = await producer.send_many("t", [b"1", b"2"], partition=0)
            assert await bulk == 2
            await producer.flush()
            assert producer.statistics().records_acked == 3
            assert await producer.partitions_for("t") == [T0, TopicPartition("t", 1)]
        async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([T0])
            found = await consumer.poll(timeout_ms=60_000, max_records=2)
            found += await consumer.poll(timeout_ms=60_000)
            assert [r.value for r in found] == [b"v", b"1", b"2"]
            assert await consumer.position(T0) == 3
            assert await consumer.end_offsets([T0]) == {T0: 3}
            await consumer.seek(T0, 1)
            assert (await consumer.poll_arrow(timeout_ms=60_000)).num_rows == 2
            assert await consumer.poll(timeout_ms=0) == []
            raw = [buffer.next_offset async for buffer in consumer.fetch_raw("t", 0, 0, 3)]
            assert raw[-1] == 3

    asyncio.run(scenario())


def test_a_loop_over_the_records_gives_each_once_and_leaves_the_position_behind_the_last(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        async with AsyncProducer(cluster.bootstrap) as producer:
            await (await producer.send_many("t", [b"%d" % n for n in range(300)], partition=0))
        async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            with pytest.raises(ValueError, match="nothing is assigned"):
                await anext(consumer)
            await consumer.assign([T0])
            found = []
            async for record in consumer:
                found.append(record.offset)
                if record.offset == 199:
                    break
            assert found == list(range(200))
            assert await consumer.position(T0) == 200
            assert [r.offset for r in await consumer.poll(timeout_ms=60_000, max_records=2)] == [200, 201]
            assert (await anext(consumer)).offset == 202
        with pytest.raises(ClientClosedError):
            await anext(consumer)

    asyncio.run(scenario())


def test_a_loop_over_the_records_lets_other_tasks_of_its_loop_run(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        async with AsyncProducer(cluster.bootstrap) as producer:
            await (await producer.send_many("t", [b"v"] * 1_000, partition=0))
        async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([T0])
            assert (await anext(consumer)).offset == 0  # all have come with it: what follows needs no wait
            ran: list[int] = []
            asyncio.get_running_loop().call_soon(ran.append, 1)
            for _ in range(200):
                await anext(consumer)
            assert ran == [1]

    asyncio.run(scenario())


def test_a_full_buffer_and_a_slow_flush_are_typed(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        cluster.silence(1)
        producer = AsyncProducer(cluster.bootstrap, buffer_memory=10_000, max_block_ms=1_000, linger_ms=0)
        with pytest.raises(BufferExhaustedError):
            for _ in range(10):
                future = await producer.send("t", b"x" * 5_000, partition=0)
        with pytest.raises(TimedOutError):
            await producer.flush(0.02)
        await producer.close(timeout=0.01)
        with pytest.raises(ClientClosedError):
            await future
        with pytest.raises(ClientClosedError):
            await producer.send("t", b"v")

    asyncio.run(scenario())


def test_the_admin_administers(cluster: FakeCluster) -> None:
    async def scenario() -> None:
        async with AsyncAdmin(cluster.bootstrap) as admin:
            assert (await admin.create_topic("new", partitions=3)).partition_count == 3
            assert await admin.list_topics() == ["new", "t"]
            await admin.delete_topic("new")
        with pytest.raises(ClientClosedError):
            await admin.list_topics()

    asyncio.run(scenario())


def test_start_says_when_nobody_is_there() -> None:
    async def scenario() -> None:
        producer = AsyncProducer("127.0.0.1:1", bootstrap_timeout_ms=100)
        with pytest.raises(BootstrapError):
            await producer.start()
        await producer.close()

    asyncio.run(scenario())


def test_a_client_is_refused_on_a_second_event_loop(cluster: FakeCluster) -> None:
    producer, consumer = AsyncProducer(cluster.bootstrap), AsyncConsumer(cluster.bootstrap)

    async def use() -> None:
        await (await producer.send("t", b"v"))
        await consumer.assign([T0])

    async def poll() -> None:
        await consumer.poll()

    asyncio.run(use())
    for second in (use, poll):
        with pytest.raises(RuntimeError, match="make another client for this loop"):
            asyncio.run(second())
