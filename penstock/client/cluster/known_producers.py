"""Asks partition leaders which idempotent producers they know. How leaders are found is by_leader.py's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.client.cluster.by_leader import Answer, LeaderQuestion, ask_leaders
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.wire.connection import Connection
from penstock.messages.admin_apis import DESCRIBE_PRODUCERS
from penstock.messages.produce import DescribeProducersPartition, DescribeProducersRequest, ProducerState
from penstock.types import TopicPartition

KnownProducersOf = dict[TopicPartition, tuple[ProducerState, ...]]


async def ask_known_producers(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], timeout_ms: int
) -> KnownProducersOf:
    """The producers of each partition, the longest silent first."""

    async def ask(
        connection: Connection, questions: Sequence[LeaderQuestion[None]], left_ms: int
    ) -> Sequence[Answer[tuple[ProducerState, ...]]]:
        request = DescribeProducersRequest(
            tuple(DescribeProducersPartition(q.partition, q.topic_id) for q in questions)
        )
        answer = await connection.call(DESCRIBE_PRODUCERS, request, min(left_ms, cluster.config.request_timeout_ms))
        return [Answer(r.partition, r.error, r.producers) for r in answer.partitions]

    return await ask_leaders(cluster, dict.fromkeys(partitions), ask, timeout_ms)
