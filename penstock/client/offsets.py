"""Asks partition leaders for offsets: earliest, latest, or by time; shared by Admin and Consumer.

Questions are put together by leader; what fails with a retriable error is asked again after a metadata refresh, within
the deadline. An error that is not retriable is raised at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from penstock.client.admin_types import OffsetInfo
from penstock.client.cluster import METADATA_ATTEMPT_MS, Cluster
from penstock.client.messages import ListOffsetsPart, ListOffsetsResult
from penstock.errors import (
    ApiError,
    InvalidTopicError,
    LeaderNotAvailableError,
    NetworkError,
    RequestTimedOutError,
    TimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition

Wanted = Mapping[TopicPartition, int]


async def list_offsets(cluster: Cluster, wanted: Wanted, timeout_ms: int) -> dict[TopicPartition, OffsetInfo]:
    """The offset of each partition at its timestamp (or sentinel of penstock.types)."""
    deadline_ms = cluster.clock.now_ms() + timeout_ms
    for tp in wanted:
        await check_partition(cluster, tp, timeout_ms)
    found: dict[TopicPartition, OffsetInfo] = {}
    attempt = 0
    while True:
        attempt += 1
        missing = {tp: wanted[tp] for tp in wanted if tp not in found}
        error = await _ask_leaders(cluster, missing, found)
        if error is None:
            return found
        wait_ms = cluster.backoff.wait_ms(attempt)
        if cluster.clock.now_ms() + wait_ms >= deadline_ms:
            if isinstance(error, (NetworkError, RequestTimedOutError)):
                raise TimedOutError(f"no offsets within {timeout_ms} ms; the last error: {error}") from error
            raise error
        cluster.refresh_soon()
        await asyncio.sleep(max(wait_ms, 1) / 1000)


async def check_partition(cluster: Cluster, tp: TopicPartition, timeout_ms: int) -> None:
    """Learns the topic's metadata; UnknownTopicOrPartitionError when there is no such partition."""
    if not tp.topic:
        raise InvalidTopicError("the topic name is empty")
    info = await cluster.topic(tp.topic, timeout_ms)
    if tp.partition >= len(info.partitions):  # what is cached may be older than the partition
        await cluster.refresh((tp.topic,))
        info = await cluster.topic(tp.topic, timeout_ms)
    if not 0 <= tp.partition < len(info.partitions):
        raise UnknownTopicOrPartitionError(
            f"topic {tp.topic!r} has partitions 0 to {len(info.partitions) - 1}, not {tp.partition}"
        )


async def _ask_leaders(cluster: Cluster, missing: Wanted, found: dict[TopicPartition, OffsetInfo]) -> ApiError | None:
    """One round; answers go to `found`, the first retriable error is returned."""
    by_node: dict[int, list[ListOffsetsPart]] = {}
    failure: ApiError | None = None
    for tp, timestamp_ms in missing.items():
        leader = cluster.cache.leader(tp)
        if leader is None:
            failure = failure or LeaderNotAvailableError(f"{tp} has no leader now")
            continue
        by_node.setdefault(leader.node_id, []).append(ListOffsetsPart(*tp, leader.epoch, timestamp_ms))
    answers = await asyncio.gather(*(_ask(cluster, node, parts) for node, parts in by_node.items()))
    for answer in answers:
        if isinstance(answer, ApiError):
            failure = failure or answer
            continue
        for result in answer:
            error = _take(cluster, result, found)
            failure = failure or error
    return failure


async def _ask(cluster: Cluster, node: int, parts: list[ListOffsetsPart]) -> tuple[ListOffsetsResult, ...] | ApiError:
    try:
        connection = cluster.require_leader_endpoint(node)
        answer = await connection.list_offsets(parts, min(METADATA_ATTEMPT_MS, cluster.config.request_timeout_ms))
    except ApiError as error:
        if not error.retriable:
            raise
        return error
    if len(answer) != len(parts):
        return UnknownServerError(f"node {node} answered for {len(answer)} of {len(parts)} partitions")
    return answer


def _take(cluster: Cluster, result: ListOffsetsResult, found: dict[TopicPartition, OffsetInfo]) -> ApiError | None:
    tp = TopicPartition(result.topic, result.partition)
    if result.error is None:
        found[tp] = OffsetInfo(result.offset, result.timestamp_ms, result.leader_epoch)
        return None
    if not result.error.retriable:
        raise result.error
    if result.error.leader is not None:
        cluster.cache.apply_hint(tp, result.error.leader)
    return result.error
