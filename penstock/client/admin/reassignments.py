"""Begins, replaces, cancels and shows reassignments (KIP-455): asked of any broker, which forwards to the controller.

Many go in several requests (portions.py). A call returns when every broker in service has heard of the outcome; the
copying goes on. Not here: what is allowed; the controller knows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.admin.changes import change
from penstock.client.admin.configs import wait_heard
from penstock.client.admin.log_dirs import ReassignmentProgress, describe_log_dirs, progress
from penstock.client.admin.portions import after_others, portions
from penstock.client.cluster import arguments
from penstock.client.cluster.cluster import ClusterClient
from penstock.errors import ApiError
from penstock.messages.client_apis import ALTER_PARTITION_REASSIGNMENTS
from penstock.messages.elections import AlterPartitionReassignmentsRequest, ReassignedPartition
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.types import NO_OFFSET, TopicPartition


def checked_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int] | None],
) -> dict[TopicPartition, Sequence[int] | None]:
    """The moves that a user wants; TypeError, ValueError or ConfigError if they cannot be."""
    before = arguments.checked_mapping("replicas", replicas, "{TopicPartition('orders', 0): [1, 2, 3]}")
    return {arguments.checked_partition(tp): arguments.checked_replicas(asked) for tp, asked in before.items()}


async def alter_reassignments(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, Sequence[int] | None], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """The result for each partition: None, or why it is not reassigned."""
    results: dict[TopicPartition, ApiError | None] = {}
    metadata_offset = NO_OFFSET
    for portion in portions(wanted, lambda tp: len(wanted[tp] or ())):
        with after_others(len(results), len(wanted)):
            request = _request({tp: wanted[tp] for tp in portion})
            answer = await change(cluster, ALTER_PARTITION_REASSIGNMENTS, request, deadline_ms)
        results |= {TopicPartition(r.topic, r.partition): r.error for r in answer.partitions}
        metadata_offset = max(metadata_offset, answer.metadata_offset)
    if any(error is None for error in results.values()):
        await wait_heard(cluster, metadata_offset, deadline_ms)
    return results


async def reassigned(cluster: ClusterClient, deadline_ms: int) -> dict[TopicPartition, PartitionInfo]:
    """The partitions that are being reassigned now, by topic."""
    return _moving(await cluster.list_topics(deadline_ms))


async def reassignment_progress(cluster: ClusterClient, deadline_ms: int) -> dict[TopicPartition, ReassignmentProgress]:
    """How far each of them is."""
    topics = await cluster.list_topics(deadline_ms)
    moving = _moving(topics)
    if not moving:
        return {}
    ids = {topic.name: topic.topic_id for topic in topics}
    names = sorted({tp.topic for tp in moving})
    return progress(moving, ids, await describe_log_dirs(cluster, None, names, deadline_ms))


def _moving(topics: Iterable[TopicInfo]) -> dict[TopicPartition, PartitionInfo]:
    return {
        TopicPartition(topic.name, partition.partition): partition
        for topic in sorted(topics, key=lambda topic: topic.name)
        for partition in topic.partitions
        if partition.is_reassigning
    }


def _request(wanted: Mapping[TopicPartition, Sequence[int] | None]) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        tuple(
            ReassignedPartition(*tp, None if replicas is None else tuple(replicas)) for tp, replicas in wanted.items()
        )
    )
