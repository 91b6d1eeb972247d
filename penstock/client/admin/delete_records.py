"""Deletes the records below an offset of each partition (KIP-107): asked of the leaders, until all have done so.

'Everything' is made an offset, and each name a topic id, before anything is deleted: a request that is repeated because
an answer was lost must not delete what was written in the meantime, be it in a topic made anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.cluster import arguments
from penstock.client.cluster.by_leader import Answer, LeaderQuestion, ask_leaders, check_partitions
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.offsets import list_offsets
from penstock.client.wire.connection import Connection
from penstock.messages.offsets import DeleteRecordsPartition
from penstock.types import LATEST_TIMESTAMP, NO_OFFSET, TopicPartition


def checked_deletions(before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The deletions that a user wants; TypeError, ValueError or ConfigError if they cannot be."""
    before = arguments.checked_mapping("before_offsets", before_offsets, "{TopicPartition('orders', 0): 100}")
    return {
        arguments.checked_partition(tp): arguments.checked_number("offset", offset, -1) for tp, offset in before.items()
    }


async def delete_records(
    cluster: ClusterClient, before_offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """The low watermark of each partition afterwards; -1 as an offset is everything that can be read now."""
    deadline_ms = cluster.clock.now_ms() + timeout_ms
    await check_partitions(cluster, before_offsets, timeout_ms)
    topic_ids = {tp.topic: cluster.cache.topic_id(tp.topic) for tp in before_offsets}
    everything = {tp: LATEST_TIMESTAMP for tp, offset in before_offsets.items() if offset == NO_OFFSET}
    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    ends = await list_offsets(cluster, everything, left_ms, topic_ids) if everything else {}
    wanted = {tp: ends[tp].offset if tp in ends else offset for tp, offset in before_offsets.items()}

    async def ask(
        connection: Connection, questions: Sequence[LeaderQuestion[int]], left_ms: int
    ) -> Sequence[Answer[int]]:
        parts = [DeleteRecordsPartition(q.partition, q.topic_id, q.wanted) for q in questions]
        results = await connection.delete_records(parts, min(left_ms, cluster.config.request_timeout_ms))
        return [Answer(r.partition, r.error, r.low_watermark) for r in results]

    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    return await ask_leaders(cluster, wanted, ask, left_ms, topic_ids)
