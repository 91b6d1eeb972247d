"""Quotas are set by Admin and hold producers and consumers on every broker, which are slow and see no error."""

from __future__ import annotations

import asyncio

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.admin.admin_types import QuotaEntity
from penstock.errors import InvalidRequestError, ResourceExhaustedError
from tests.support.memory_cluster import MemoryCluster, run_in_memory

EVERY_CLIENT = QuotaEntity(client_id="")
RATE, SIZE = 100_000, 10_000


def test_a_producer_has_its_quota_over_30_s_and_no_error() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(1)
        loop = asyncio.get_running_loop()
        async with AsyncAdmin(cluster.bootstrap(1), environment=cluster.clients()) as admin:
            await admin.create_topic("t", 1, replication_factor=1)
            assert await admin.alter_client_quotas({EVERY_CLIENT: {"producer_byte_rate": RATE}}) == {EVERY_CLIENT: None}
            assert await admin.describe_client_quotas() == {EVERY_CLIENT: {"producer_byte_rate": float(RATE)}}
            async with AsyncProducer(
                cluster.bootstrap(1), client_id="app", linger_ms=0, batch_size=SIZE, environment=cluster.clients()
            ) as producer:
                began, count = loop.time(), 0
                while loop.time() - began < 30:
                    await (await producer.send("t", b"x" * SIZE))
                    count += 1
                assert count * SIZE / 30 == pytest.approx(RATE, rel=0.05)
            counts = cluster.nodes[0].broker.requests.quotas.clients.statistics()["producer_byte_rate"]
            assert counts.throttled > 200 and counts.throttle_ms == pytest.approx(30_000, rel=0.1)
            assert await admin.alter_client_quotas({EVERY_CLIENT: {"producer_byte_rate": None}}) == {EVERY_CLIENT: None}
            assert await admin.describe_client_quotas() == {}
            assert not cluster.nodes[0].broker.requests.quotas.is_active
            with pytest.raises(TypeError):
                await admin.alter_client_quotas({"anna": {}})  # type: ignore[dict-item]
            result = await admin.alter_client_quotas({EVERY_CLIENT: {"producer_byte_rate": 0}})
            assert isinstance(result[EVERY_CLIENT], InvalidRequestError)
        await cluster.stop()

    run_in_memory(3, story, nodes=1)


def test_a_consumer_has_its_quota_over_30_s_and_loses_nothing() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(1)
        loop = asyncio.get_running_loop()
        options = {"client_id": "app", "environment": cluster.clients()}
        async with AsyncAdmin(cluster.bootstrap(1), environment=cluster.clients()) as admin:
            await admin.create_topic("t", 1, replication_factor=1)
            async with AsyncProducer(cluster.bootstrap(1), batch_size=SIZE, linger_ms=0, **options) as producer:
                for number in range(400):
                    await (await producer.send("t", b"%9d" % number + b"x" * SIZE))
            await admin.alter_client_quotas({QuotaEntity("", "app"): {"consumer_byte_rate": RATE}})
            async with AsyncConsumer(
                cluster.bootstrap(1), max_partition_fetch_bytes=SIZE, auto_offset_reset="earliest", **options
            ) as consumer:
                await consumer.assign([TopicPartition("t", 0)])
                began, seen = loop.time(), 0
                while loop.time() - began < 30:
                    for record in await consumer.poll(1_000):
                        assert int(record.value[:9]) == seen
                        seen += 1
                assert seen * SIZE / 30 == pytest.approx(RATE, rel=0.05)
        await cluster.stop()

    run_in_memory(4, story, nodes=1)


def test_a_wait_beyond_the_time_for_an_answer_is_no_silence_and_repeats_no_request() -> None:
    """Each request of 50 kB leaves its connection unread for about 50 s; the clients wait 5 s for an answer."""

    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(1)
        options = {"client_id": "app", "environment": cluster.clients(), "request_timeout_ms": 5_000}
        async with AsyncAdmin(cluster.bootstrap(1), environment=cluster.clients()) as admin:
            await admin.create_topic("t", 2, replication_factor=1)
            limits = {"producer_byte_rate": 1_000, "consumer_byte_rate": 1_000}
            await admin.alter_client_quotas({QuotaEntity(client_id="app"): limits})
        async with AsyncProducer(
            cluster.bootstrap(1), linger_ms=0, batch_size=50_000, delivery_timeout_ms=600_000, **options
        ) as producer:
            sent = [await producer.send("t", b"x" * 50_000, partition=number % 2) for number in range(6)]
            await asyncio.sleep(20)
            assert ["the client's quota is used up" in str(waiting) for waiting in await producer.waiting_for()] == [
                True
            ]
            acked = [await future for future in sent]
            assert [one.offset for one in acked] == [0, 0, 1, 1, 2, 2]
            counts = producer.statistics()
            assert (counts.batches_retried, counts.possible_duplicates) == (0, 0)
            assert counts.throttle_time_max_ms > 40_000 and counts.throttle_time_ms > 200_000
            assert counts.throttle_time_avg_ms == counts.throttle_time_ms / counts.requests_sent
        async with AsyncConsumer(
            cluster.bootstrap(1), max_partition_fetch_bytes=10_000, auto_offset_reset="earliest", **options
        ) as consumer:
            await consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            seen = 0
            while seen < 6:
                seen += len(await consumer.poll(1_000))
            found = consumer.statistics().fetch
            assert (found.silences, found.broken_streams) == (0, 0)
            assert found.throttle_time_ms > 100_000
            (longest,) = (one.value for one in consumer.metrics() if one.name == "fetch-throttle-time-max")
            assert longest == found.throttle_time_max_ms > 40_000
            assert any("quota is used up" in str(waiting) for waiting in await consumer.waiting_for())
        await cluster.stop()

    run_in_memory(6, story, nodes=1)


def test_who_makes_many_partitions_gets_them_at_once_and_makes_the_next_ones_later() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(1)
        loop = asyncio.get_running_loop()
        async with AsyncAdmin(cluster.bootstrap(1), environment=cluster.clients()) as admin:
            await admin.alter_client_quotas({QuotaEntity("ANONYMOUS"): {"controller_mutation_rate": 2}})
            began = loop.time()
            await admin.create_topic("burst", 62, replication_factor=1)
            assert len((await admin.describe_topic("burst")).partitions) == 62, "questions do not wait"
            assert loop.time() - began < 3
            assert admin.statistics().throttle_time_max_ms == pytest.approx(20_000, abs=1_000)
            (waiting,) = admin.waiting_for()
            assert "its next change of partitions is in" in waiting
            await admin.create_topic("more", 2, replication_factor=1)
            assert 18 < loop.time() - began < 23
            assert len((await admin.describe_topic("more")).partitions) == 2
        await cluster.stop()

    run_in_memory(5, story, nodes=1)


def test_a_change_that_cannot_wait_so_long_is_refused_by_the_client_and_not_made() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(1)
        options = {"environment": cluster.clients(), "default_api_timeout_ms": 5_000}
        async with AsyncAdmin(cluster.bootstrap(1), **options) as admin:
            await admin.alter_client_quotas({QuotaEntity("ANONYMOUS"): {"controller_mutation_rate": 2}})
            await admin.create_topic("burst", 62, replication_factor=1)
            with pytest.raises(ResourceExhaustedError, match="quota is used up there"):
                await admin.create_topic("more", 2, replication_factor=1)
            assert await admin.list_topics() == ["burst"]
        await cluster.stop()

    run_in_memory(5, story, nodes=1)
