"""Describes topics: as a broker has them that knows no less of the metadata than this client has seen before.

The metadata names a leader even for a partition whose last in-sync replica is lost. Only that leader knows what is
wrong, so it is asked too. Not here: how the answers become what Admin returns or raises (topic_answers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from penstock.client.admin.admin_types import TopicDescription
from penstock.client.admin.topic_answers import description, existing
from penstock.client.cluster.arguments import MAX_INT32
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.errors import ApiError, UnknownTopicOrPartitionError
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.types import NO_LEADER, Endpoint

DESCRIBED_AT_ONCE = 16
"""Topics whose leaders are asked at the same time, when all are described."""


async def find(cluster: ClusterClient, name: str, deadline_ms: int) -> TopicInfo:
    """The topic that has the name now."""
    snapshot = await cluster.refresh((name,), deadline_ms=deadline_ms)
    return existing(name, snapshot.topics)


async def list_names(cluster: ClusterClient, deadline_ms: int) -> list[str]:
    """The names of all topics, sorted."""
    topics = await cluster.list_topics(deadline_ms)
    return sorted(topic.name for topic in topics if topic.error is None)


async def describe_one(cluster: ClusterClient, name: str, deadline_ms: int) -> TopicDescription:
    """One topic, with the errors of its leaders."""
    topic = existing(name, await cluster.list_topics(deadline_ms, (name,), True))
    return await _described(cluster, topic, deadline_ms)


async def describe_all(cluster: ClusterClient, deadline_ms: int, *, ask_leaders: bool = True) -> list[TopicDescription]:
    """Every topic, sorted by name; with the errors of their leaders if these are asked."""
    topics = await cluster.list_topics(deadline_ms, include_log_dirs=ask_leaders)
    if not ask_leaders:
        return sorted((description(t) for t in topics if t.error is None), key=lambda topic: topic.name)
    turns = asyncio.Semaphore(DESCRIBED_AT_ONCE)

    async def described(topic: TopicInfo) -> TopicDescription:
        async with turns:
            return await _described(cluster, topic, deadline_ms)

    found = await asyncio.gather(*(described(topic) for topic in topics if topic.error is None))
    return sorted(found, key=lambda topic: topic.name)


async def _described(cluster: ClusterClient, topic: TopicInfo, deadline_ms: int) -> TopicDescription:
    """The topic, each partition with the error that its leader has for it, where that is the only in-sync replica."""
    alone = {p.leader_id for p in topic.partitions if p.error is None and p.leader_id != NO_LEADER and len(p.isr) < 2}
    endpoints = [at for node_id in sorted(alone) if (at := cluster.cache.endpoint(node_id)) is not None]
    told = {
        (p.partition, p.leader_id, p.leader_epoch): p.error
        for answer in await ask_brokers(cluster, topic.name, endpoints, deadline_ms)
        if answer is not None and answer.topic_id == topic.topic_id
        for p in answer.partitions
        if p.error is not None
    }

    def with_error(p: PartitionInfo) -> PartitionInfo:
        return replace(p, error=p.error or told.get((p.partition, p.leader_id, p.leader_epoch)))

    return description(replace(topic, partitions=tuple(map(with_error, topic.partitions))))


async def ask_brokers(
    cluster: ClusterClient, name: str, endpoints: Sequence[Endpoint], deadline_ms: int
) -> list[TopicInfo | None]:
    """The topic as each of these brokers has it; None for one that does not answer."""

    async def ask(endpoint: Endpoint) -> TopicInfo | None:
        left_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), MAX_INT32)
        try:
            snapshot = await cluster.connection_to(endpoint).metadata((name,), min(left_ms, METADATA_ATTEMPT_MS))
        except ApiError:
            return None
        missing = TopicInfo(name, "", (), error=UnknownTopicOrPartitionError())
        return next((topic for topic in snapshot.topics if topic.name == name), missing)

    return list(await asyncio.gather(*map(ask, endpoints)))
