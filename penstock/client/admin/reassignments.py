"""Begins, replaces, cancels and shows reassignments (KIP-455): asked of any broker, which forwards to the controller.

Many go in several requests (portions.py). Over when every broker in service has heard of the outcome; the copying goes
on. Not here: what is allowed; the controller knows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.admin.configs import wait_heard
from penstock.client.admin.log_dirs import ReassignmentProgress, describe_log_dirs, progress
from penstock.client.admin.portions import after_others, portions
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.client.wire.messages import PartitionInfo, ReassignmentAnswer, TopicInfo
from penstock.errors import ApiError, NoReassignmentInProgressError
from penstock.types import NO_OFFSET, TopicPartition


async def alter_reassignments(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, Sequence[int] | None], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """What became of each partition: None, or why nothing did."""
    results: dict[TopicPartition, ApiError | None] = {}
    metadata_offset = NO_OFFSET
    for portion in portions(wanted, lambda tp: len(wanted[tp] or ())):
        with after_others(len(results), len(wanted)):
            answer = await _altered(cluster, {tp: wanted[tp] for tp in portion}, deadline_ms)
        results |= answer.results
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


async def _altered(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, Sequence[int] | None], deadline_ms: int
) -> ReassignmentAnswer:
    """The answer to one request."""
    maybe_done = False  # an attempt failed, and its outcome is unknown

    async def alter(connection: Connection, timeout_ms: int) -> ReassignmentAnswer:
        nonlocal maybe_done
        try:
            return await connection.alter_partition_reassignments(wanted, timeout_ms)
        except ApiError as error:
            maybe_done = maybe_done or outcome_unknown(error)
            raise

    answer = await cluster.ask_any(alter, deadline_ms)
    results = {tp: _after_attempts(error, maybe_done) for tp, error in answer.results.items()}
    return ReassignmentAnswer(results, answer.metadata_offset)


def _after_attempts(error: ApiError | None, maybe_done: bool) -> ApiError | None:
    """What is not under way after an attempt without an answer was cancelled by that attempt."""
    return None if maybe_done and isinstance(error, NoReassignmentInProgressError) else error
