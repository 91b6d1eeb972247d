"""Requests of Kafka's protocol about the offsets of a group, and their answers, by spots: partitions of topic ids.

Until version 9 they name topics by name, from 10 on by id. Not here: who asks, and what may be true of the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.kafka.schemas.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.cluster.groups.oracle import Spot

BY_ID_VERSION = 10
Names = Mapping[str, str]
"""The names of topics, by their ids."""


def fetch_request(names: Names, group_id: str, spots: Iterable[Spot], **member: Any) -> OffsetFetchRequest:
    """A request of one group; `member` is the one that asks, in versions that have one."""
    by_topic: dict[str, list[int]] = {}
    for spot in sorted(spots):
        by_topic.setdefault(spot.topic_id, []).append(spot.partition)
    topics = [
        OffsetFetchRequestTopics(name=names.get(topic_id, ""), topic_id=topic_id, partition_indexes=numbers)
        for topic_id, numbers in by_topic.items()
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics, **member)])


def commit_request(
    names: Names, group_id: str, offsets: Mapping[Spot, int], metadata: str, **member: Any
) -> OffsetCommitRequest:
    """By the member whose fields these are."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for spot, offset in sorted(offsets.items()):
        part = OffsetCommitRequestPartition(
            partition_index=spot.partition, committed_offset=offset, committed_metadata=metadata
        )
        by_topic.setdefault(spot.topic_id, []).append(part)
    topics = [
        OffsetCommitRequestTopic(name=names.get(topic_id, ""), topic_id=topic_id, partitions=parts)
        for topic_id, parts in by_topic.items()
    ]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **member)


def parts_of(names: Names, topics: Iterable[Any], version: int) -> dict[Spot, Any]:
    """The partitions of an answer."""
    ids = {name: topic_id for topic_id, name in names.items()}
    return {
        Spot(topic.topic_id if version >= BY_ID_VERSION else ids.get(topic.name, ""), part.partition_index): part
        for topic in topics
        for part in topic.partitions
    }
