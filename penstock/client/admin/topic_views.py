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
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.types import NO_LEADER, Endpoint


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
    return (await _described(cluster, (topic,), deadline_ms))[0]


async def describe_many(
    cluster: ClusterClient, names: Sequence[str] | None, deadline_ms: int, *, ask_leaders: bool = True
) -> list[TopicDescription]:
    """The topics of these names, or all, sorted by name; with the errors of their leaders if these are asked. A name
    that no topic has, or that the caller may not see, is left out, as from the list of all."""
    some = [None] if names is None else [names[at : at + NAMES_MAX] for at in range(0, len(names), NAMES_MAX)]
    topics: list[TopicInfo] = []
    for portion in some:
        topics += await cluster.list_topics(deadline_ms, portion, include_log_dirs=ask_leaders)
    known = [topic for topic in topics if topic.error is None]
    found = await _described(cluster, known, deadline_ms) if ask_leaders else list(map(description, known))
    return sorted(found, key=lambda topic: topic.name)


async def _described(cluster: ClusterClient, topics: Sequence[TopicInfo], deadline_ms: int) -> list[TopicDescription]:
    """The topics, each partition with the error that its leader has for it, where that is the only in-sync replica.
    Each such leader is asked once for all of them."""
    alone: dict[int, list[str]] = {}
    for topic in topics:
        lonely = (p for p in topic.partitions if p.error is None and p.leader_id != NO_LEADER and len(p.isr) < 2)
        for leader_id in sorted({p.leader_id for p in lonely}):
            alone.setdefault(leader_id, []).append(topic.name)
    questions = [
        (at, names[first : first + NAMES_MAX])
        for node_id, names in sorted(alone.items())
        if (at := cluster.cache.endpoint(node_id)) is not None
        for first in range(0, len(names), NAMES_MAX)
    ]
    answers = await asyncio.gather(*(_ask(cluster, names, at, deadline_ms) for at, names in questions))
    errors = {
        (topic.topic_id, p.partition, p.leader_id, p.leader_epoch): p.error
        for answer in answers
        for topic in answer or ()
        for p in topic.partitions
        if p.error is not None
    }

    def with_error(topic: TopicInfo, p: PartitionInfo) -> PartitionInfo:
        return replace(p, error=p.error or errors.get((topic.topic_id, p.partition, p.leader_id, p.leader_epoch)))

    return [
        description(replace(topic, partitions=tuple(with_error(topic, p) for p in topic.partitions)))
        for topic in topics
    ]


async def ask_brokers(
    cluster: ClusterClient, name: str, endpoints: Sequence[Endpoint], deadline_ms: int
) -> list[TopicInfo | None]:
    """The topic as each of these brokers has it; None for one that does not answer."""
    missing = TopicInfo(name, "", (), error=UnknownTopicOrPartitionError())
    answers = await asyncio.gather(*(_ask(cluster, (name,), at, deadline_ms) for at in endpoints))
    return [
        None if answer is None else next((topic for topic in answer if topic.name == name), missing)
        for answer in answers
    ]


async def _ask(
    cluster: ClusterClient, names: Sequence[str], endpoint: Endpoint, deadline_ms: int
) -> tuple[TopicInfo, ...] | None:
    """Some topics as one broker has them; None if it does not answer."""
    left_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), MAX_INT32)
    try:
        snapshot = await cluster.connection_to(endpoint).metadata(tuple(names), min(left_ms, METADATA_ATTEMPT_MS))
    except ApiError:
        return None
    return snapshot.topics
