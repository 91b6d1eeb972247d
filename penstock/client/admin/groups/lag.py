"""The lag of a group: what it has committed beside the ends of the logs, partition by partition.

The end is the last stable offset, where a reader of committed records ends: a group that waits for the end of a
transaction has no lag.

A partition whose leader does not answer has an error in place of its end, and holds up no other. Not here: the lag that
a consumer itself sees (consumer/consumer_calls.py), and the coordinators' metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.cluster_views import VIEW_MS
from penstock.client.admin.groups.committed import committed_offsets
from penstock.client.admin.groups.describing import describe_groups
from penstock.client.admin.groups.group_types import GroupDescription, PartitionLag
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.offsets import list_offsets_once
from penstock.errors import ApiError, UnknownTopicOrPartitionError
from penstock.types import LATEST_TIMESTAMP, CommittedOffset, TopicPartition


async def lags_of(
    cluster: ClusterClient, coordinators: Coordinators, group_ids: Sequence[str], deadline_ms: int
) -> dict[str, dict[TopicPartition, PartitionLag]]:
    """The lag of each group; the error of the first one whose coordinator cannot tell."""
    groups = await describe_groups(coordinators, group_ids, deadline_ms)
    committed = await committed_offsets(coordinators, group_ids, deadline_ms)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for group_id, group in groups.items():
        found = committed[group_id]
        if group.error is not None:
            raise group.error
        if isinstance(found, ApiError):
            raise found
        offsets[group_id] = found
    wanted = {tp for group_id, group in groups.items() for tp in partitions_of(group, offsets[group_id])}
    ends = await log_ends(cluster, wanted, deadline_ms, read_committed=True)
    return {group_id: lag_of(group, offsets[group_id], ends) for group_id, group in groups.items()}


def lag_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int | ApiError],
) -> dict[TopicPartition, PartitionLag]:
    """Every partition that the group has committed an offset of, or that a member has."""
    found = {}
    for tp in partitions_of(group, committed):
        end, owner = ends[tp], group.owner_of(tp)
        log_end_offset, error = (None, end) if isinstance(end, ApiError) else (end, None)
        found[tp] = PartitionLag(committed.get(tp), log_end_offset, owner.member_id if owner else None, error)
    return found


def partitions_of(group: GroupDescription, committed: Collection[TopicPartition]) -> list[TopicPartition]:
    """The partitions that the group has committed an offset of, and those that its members have; sorted."""
    return sorted({*committed, *(tp for member in group.members for tp in member.assignment)})


async def offsets_at(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], deadline_ms: int, *, read_committed: bool = False
) -> dict[TopicPartition, int | ApiError]:
    """The offset of each partition at a time, or a sentinel of penstock.types; the last error of one whose leader does
    not answer soon."""
    if not wanted:
        return {}
    await cluster.refresh({tp.topic for tp in wanted}, deadline_ms=deadline_ms)
    answers: dict[TopicPartition, int | ApiError] = {}
    for tp in wanted:
        topic = cluster.cache.topic(tp.topic)
        if topic is None or tp.partition >= len(topic.partitions):
            answers[tp] = UnknownTopicOrPartitionError(f"{tp} does not exist")
    patient_until_ms, attempt = min(deadline_ms, cluster.clock.now_ms() + VIEW_MS), 0
    missing = {tp: at for tp, at in wanted.items() if tp not in answers}
    while missing:
        attempt += 1
        answered = await list_offsets_once(cluster, missing, read_committed=read_committed)
        answers |= {tp: info.offset for tp, info in answered.found.items()}
        answers |= answered.failed
        missing = {tp: missing[tp] for tp, error in answered.failed.items() if error.retriable}
        wait_ms = max(cluster.backoff.wait_ms(attempt), 1)
        if cluster.clock.now_ms() + wait_ms >= patient_until_ms:
            break
        if missing:
            cluster.refresh_soon()
            await asyncio.sleep(wait_ms / 1000)
    return {tp: answers[tp] for tp in wanted}


async def log_ends(
    cluster: ClusterClient, partitions: Collection[TopicPartition], deadline_ms: int, *, read_committed: bool = False
) -> dict[TopicPartition, int | ApiError]:
    """The high watermark of each partition, or its last stable offset."""
    wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
    return await offsets_at(cluster, wanted, deadline_ms, read_committed=read_committed)
