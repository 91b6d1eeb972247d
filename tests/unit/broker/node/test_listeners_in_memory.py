"""Clients at a second listener of three whole nodes in one event loop: they are told of its addresses, of no others."""

from __future__ import annotations

import asyncio
import json

import pytest

from metadata.codec import encode_record
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.environment import ClientEnvironment
from penstock.errors import ListenerNotFoundError
from penstock.messages.metadata import MetadataRequest, MetadataResponse
from penstock.types import Endpoint
from tests.support.memory_cluster import MemoryCluster, run_in_memory

ORDERS = TopicPartition("orders", 0)
OUTSIDE_PORT = 9093
LIMIT_SECONDS = 60
"""Limit of virtual time for one move."""


async def started(cluster: MemoryCluster, outside: frozenset[int]) -> ClientEnvironment:
    """Clients that reach only the addresses of the listener OUTSIDE, of the nodes that have one."""
    cluster.outside = outside
    cluster.format()
    await cluster.start()
    return cluster.clients("OUTSIDE")


async def moved(admin: AsyncAdmin, *replicas: int) -> None:
    assert (await admin.alter_partition_reassignments({ORDERS: replicas}))[ORDERS] is None
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            if not await admin.list_partition_reassignments():
                return
            await asyncio.sleep(0.05)


async def through_leader_changes(cluster: MemoryCluster) -> None:
    environment, bootstrap = await started(cluster, frozenset(range(3))), f"node-0.outside:{OUTSIDE_PORT}"
    leaders: list[int] = []
    async with (
        AsyncAdmin(bootstrap, environment=environment) as admin,
        AsyncProducer(bootstrap, environment=environment, acks="all", linger_ms=0) as producer,
        AsyncConsumer(bootstrap, environment=environment, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topic("orders", 1, 1)
        await consumer.assign([ORDERS])
        found: list[tuple[int, bytes | None]] = []
        for leader in (2, 0, 1, 2):
            await moved(admin, leader)
            (partition,) = (await admin.describe_topic("orders")).partitions
            leaders.append(partition.leader_id)
            for _ in range(5):
                number = len(found)
                assert (await (await producer.send("orders", b"%d" % number))).offset == number
                while len(found) == number:
                    found += [(record.offset, record.value) for record in await consumer.poll(1_000)]
        assert found == [(number, b"%d" % number) for number in range(20)]
    assert leaders == [2, 0, 1, 2]
    await cluster.stop()


def test_a_client_outside_writes_and_reads_through_leader_changes_and_meets_no_other_address() -> None:
    run_in_memory(1, through_leader_changes)


async def without_a_listener(cluster: MemoryCluster) -> None:
    environment = await started(cluster, frozenset({0, 1}))
    outside, inside = cluster.config(0).listener("OUTSIDE"), cluster.endpoint(0)

    async def asked(endpoint: Endpoint) -> MetadataResponse:
        answer = await cluster.ask(endpoint, "Metadata", MetadataRequest(("orders",)))
        assert isinstance(answer, MetadataResponse)
        return answer

    async with AsyncAdmin(f"node-1.outside:{OUTSIDE_PORT}", environment=environment) as admin:
        await admin.create_topic("orders", 1, 1)
        await moved(admin, 2)
        await asyncio.sleep(0.1)
        answer = await asked(outside)
        assert {(node.node_id, node.host, node.port) for node in answer.brokers} == {
            (index, f"node-{index}.outside", OUTSIDE_PORT) for index in (0, 1)
        }
        ((partition,),) = (topic.partitions for topic in answer.topics)
        assert (partition.leader_id, partition.replicas) == (-1, (2,))
        assert isinstance(partition.error, ListenerNotFoundError) and "broker 2, which has no listener OUTSIDE" in str(
            partition.error
        )
        (described,) = (await admin.describe_topic("orders")).partitions
        assert isinstance(described.error, ListenerNotFoundError)
        answer = await asked(inside)
        assert {(node.node_id, node.port) for node in answer.brokers} == {
            (index, cluster.endpoint(index).port) for index in range(3)
        }
        ((partition,),) = (topic.partitions for topic in answer.topics)
        assert (partition.leader_id, partition.error) == (2, None)
        health = await admin.cluster_health()
        assert health.status == "healthy", "a broker that cannot be asked there is not a broker that is silent"
        (described,) = [check.summary for check in health.checks if check.name == "node listeners"]
        assert described == "none is known to be open to every network; not known of node 2"
        (row,) = [digest for digest in await admin.metadata_digests() if digest.node_id == 2]
        assert "broker 2 has no listener of the name" in row.error
        assert isinstance((await admin.describe_log_dirs([2]))[2].error, ListenerNotFoundError)
        with pytest.raises(ListenerNotFoundError, match="broker 2 has no listener of the name"):
            await admin.describe_metadata(node_id=2)
        await moved(admin, 0)
        await asyncio.sleep(0.1)
        ((partition,),) = (topic.partitions for topic in (await asked(outside)).topics)
        assert (partition.leader_id, partition.error) == (0, None)
    images = [node.loader.image for node in cluster.nodes]
    for image in images:
        written = {broker.broker_id: json.loads(encode_record(broker.to_record())) for broker in image.brokers.values()}
        assert [written[index]["version"] for index in range(3)] == [4, 4, 3]
        assert written[0]["listeners"] == ["OUTSIDE://node-0.outside:9093"] and "listeners" not in written[2]
    await cluster.stop()


def test_a_broker_without_the_listener_is_left_out_there_and_its_record_is_as_before() -> None:
    run_in_memory(1, without_a_listener)
