"""The clients that users import, and three whole nodes, in one simulated process: both seams meet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from metadata.controller.producer_ids import BLOCK_SIZE
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.producer_ids import init_producer_id
from penstock.client.environment import ClientEnvironment
from penstock.client.options.config import AdminConfig
from tests.support.memory_cluster import MemoryCluster, run_in_memory

RECORDS = 30


async def started(cluster: MemoryCluster) -> tuple[ClientEnvironment, str]:
    """The environment of its clients, and the addresses that they know."""
    cluster.format()
    await cluster.start()
    return cluster.clients(), cluster.bootstrap()


async def produced_and_read(cluster: MemoryCluster) -> list[Any]:
    """The acked records as a consumer reads them, the time when it had them, and the messages until then."""
    environment, bootstrap = await started(cluster)
    async with (
        AsyncAdmin(bootstrap, environment=environment) as admin,
        AsyncProducer(bootstrap, environment=environment, acks="all", linger_ms=1) as producer,
        AsyncConsumer(bootstrap, environment=environment, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topic("orders", partitions=1)
        for number in range(RECORDS):
            assert (await (await producer.send("orders", b"%d" % number))).offset == number
        await consumer.assign([TopicPartition("orders", 0)])
        found: list[Any] = []
        while len(found) < RECORDS:
            found += [(record.offset, record.value) for record in await consumer.poll(1_000)]
        assert found == [(number, b"%d" % number) for number in range(RECORDS)]
        found += [environment.clock.now_ms(), cluster.network.carried]
    await cluster.stop()
    return found


def test_clients_create_produce_and_read_through_three_nodes_and_a_seed_is_the_story() -> None:
    first = run_in_memory(1, produced_and_read)
    assert first == run_in_memory(1, produced_and_read)
    assert first != run_in_memory(2, produced_and_read)


async def read_again_and_again(cluster: MemoryCluster) -> list[int]:
    """A user who goes back to the beginning while an answer is under way: how long each reading took."""
    environment, bootstrap = await started(cluster)
    took: list[int] = []
    async with (
        AsyncAdmin(bootstrap, environment=environment) as admin,
        AsyncProducer(bootstrap, environment=environment, acks="all", linger_ms=1) as producer,
    ):
        await admin.create_topic("orders", partitions=1)
        await (await producer.send("orders", b"0"))
        for pause_ms in range(12):
            async with AsyncConsumer(bootstrap, environment=environment, auto_offset_reset="earliest") as consumer:
                await consumer.assign([TopicPartition("orders", 0)])
                await asyncio.sleep(pause_ms / 1000)
                await consumer.seek_to_beginning()
                began_ms = environment.clock.now_ms()
                assert await consumer.poll(10_000), f"nothing after a seek {pause_ms} ms after the assignment"
                took.append(environment.clock.now_ms() - began_ms)
    await cluster.stop()
    return took


@pytest.mark.parametrize("seed", range(4))
def test_a_seek_that_comes_back_to_where_it_was_is_read_though_the_answer_was_dropped(seed: int) -> None:
    assert max(run_in_memory(seed, read_again_and_again)) < 200


async def asked_for_ids(cluster: MemoryCluster) -> list[int]:
    """The producer ids that each node gives, at the same time, before and after a power cut of all of them."""
    environment, _ = await started(cluster)
    endpoints = [cluster.endpoint(index) for index in range(3)]
    found: list[int] = []
    for is_after_cut in (False, True):
        if is_after_cut:
            await cluster.cut_power()
            await cluster.start()
        client = ClusterClient(tuple(endpoints), AdminConfig(), environment)
        await init_producer_id(client, client.clock.now_ms() + 60_000)
        while len([broker for broker in client.cache.brokers if not broker.fenced]) < 3:
            await client.refresh()
            await asyncio.sleep(0.1)
        asked = [client.connection_to(e).init_producer_id(5_000) for e in endpoints for _ in range(10)]
        found += [answer.producer_id for answer in await asyncio.gather(*asked)]
        await client.close()
    await cluster.stop()
    return found


def test_no_producer_id_is_given_twice_by_three_nodes_that_lose_power() -> None:
    found = run_in_memory(1, asked_for_ids)
    assert len(set(found)) == len(found) == 60
    assert len({producer_id // BLOCK_SIZE for producer_id in found}) == 6, "each node has a block of its own"
    assert min(found[30:]) > max(found[:30]), "what was left of the blocks before the cut is nobody's"
