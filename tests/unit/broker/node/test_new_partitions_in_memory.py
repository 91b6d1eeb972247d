"""Whole nodes in memory while a topic gets more partitions: one that is down, deletion at once, and a power cut."""

from __future__ import annotations

import asyncio

import pytest

from metadata.registrations import PartitionRegistration
from penstock import AsyncProducer
from penstock.errors import InvalidPartitionsError, UnknownTopicOrPartitionError
from penstock.messages.metadata import MetadataRequest
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
    TopicResult,
)
from penstock.types import TopicPartition
from tests.support.memory_cluster import MemoryCluster, run_in_memory

VALUES = [b"first", b"second"]


async def grown(cluster: MemoryCluster, asked: NewPartitions, by: int = 0) -> TopicResult:
    """Asks node `by` for more partitions."""
    body = CreatePartitionsRequest((asked,))
    answer: CreatePartitionsResponse = await cluster.ask(cluster.endpoint(by), "CreatePartitions", body)
    return answer.topics[0]


async def created(cluster: MemoryCluster, partitions: int = 1) -> str:
    cluster.format()
    await cluster.start()
    body = CreateTopicsRequest((NewTopic("t", partitions, 3),))
    answer = await cluster.ask(cluster.endpoint(0), "CreateTopics", body)
    return str(answer.topics[0].topic_id)


async def registered(cluster: MemoryCluster, partition: int, isr: int) -> PartitionRegistration:
    """The partition, once node 0 knows a leader of it, and at least `isr` replicas in sync."""
    while True:
        found = cluster.nodes[0].loader.image.partition("t", partition)
        if found is not None and found.has_leader and len(found.isr) >= isr:
            return found
        await asyncio.sleep(0.02)


async def acked(cluster: MemoryCluster, partition: int) -> int:
    """The offset of records that all in-sync replicas have."""
    async with AsyncProducer(cluster.bootstrap(2), environment=cluster.clients(), linger_ms=0) as producer:
        sent = [await producer.send("t", value, partition=partition) for value in VALUES]
        return min([(await record).offset for record in sent])


def log_end(cluster: MemoryCluster, node: int, partition: int, topic_id: str) -> int:
    log = cluster.nodes[node].log_manager.get(TopicPartition("t", partition), topic_id)  # type: ignore[union-attr]
    assert log is not None
    return int(log.log_end_offset)


def test_a_broker_that_was_down_hosts_the_new_partitions_when_it_is_back() -> None:
    async def story(cluster: MemoryCluster) -> None:
        topic_id = await created(cluster)
        await cluster.nodes[2].stop()
        assert (await grown(cluster, NewPartitions("t", 2))).error is None
        result = await grown(cluster, NewPartitions("t", 3, (ReplicaAssignment(2, (2, 0, 1)),)), by=1)
        assert (result.error, result.topic_id, result.partitions) == (None, topic_id, 3)
        answer = await cluster.ask(cluster.endpoint(1), "Metadata", MetadataRequest(("t",)))
        assert sorted(p.partition for p in answer.topics[0].partitions) == [0, 1, 2], "the answering node has them"
        for partition in (1, 2):
            assert set((await registered(cluster, partition, 2)).isr) == {0, 1}
            assert await acked(cluster, partition) == 0
        cluster.nodes[2] = cluster.node(2)
        await cluster.nodes[2].start()
        for partition in (1, 2):
            assert len((await registered(cluster, partition, 3)).isr) == 3
            assert [log_end(cluster, node, partition, topic_id) for node in range(3)] == [len(VALUES)] * 3
        await cluster.stop()

    run_in_memory(3, story)


@pytest.mark.parametrize("seed", range(3))
def test_new_partitions_and_what_was_acked_in_them_survive_a_power_cut(seed: int) -> None:
    async def story(cluster: MemoryCluster) -> None:
        await created(cluster)
        assert await acked(cluster, 0) == 0
        assert (await grown(cluster, NewPartitions("t", 4))).error is None
        for partition in range(1, 4):
            assert await acked(cluster, partition) == 0, "each new partition begins empty"
        await cluster.cut_power()
        await cluster.start()
        for partition in range(4):
            await registered(cluster, partition, 2)
            assert await acked(cluster, partition) == len(VALUES)
        error = (await grown(cluster, NewPartitions("t", 4))).error
        assert isinstance(error, InvalidPartitionsError) and "4 partitions already" in str(error)
        await cluster.stop()

    run_in_memory(seed, story)


@pytest.mark.parametrize("seed", range(3))
def test_partitions_that_are_added_while_their_topic_is_deleted_are_gone_with_it(seed: int) -> None:
    async def story(cluster: MemoryCluster) -> None:
        topic_id = await created(cluster)
        delete = cluster.ask(cluster.endpoint(1), "DeleteTopics", DeleteTopicsRequest((topic_id,)))
        result, deleted = await asyncio.gather(grown(cluster, NewPartitions("t", 9, topic_id=topic_id)), delete)
        assert deleted.topics[0].error is None
        assert result.error is None or isinstance(result.error, UnknownTopicOrPartitionError)
        logs: list[object] = ["not looked yet"]
        for _ in range(500):
            logs = [log for node in cluster.nodes for log in node.log_manager.logs() if log.topic_id == topic_id]  # type: ignore[union-attr]
            if not logs:
                break
            await asyncio.sleep(0.02)
        assert not logs
        assert all(node.loader.image.topic("t") is None for node in cluster.nodes)
        await cluster.stop()

    run_in_memory(seed, story)
