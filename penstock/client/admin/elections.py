"""Orders elections of leaders (KIP-460): asked of any broker, which forwards them to the controller.

Those of many partitions go in several requests (portions.py). Over when every broker in service has heard of the
outcome. Not here: who may be elected; the controller knows that.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.admin.configs import wait_heard
from penstock.client.admin.portions import PARTITIONS_MAX, after_others, portions
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.client.wire.messages import ElectionAnswer, ElectionResult
from penstock.errors import ApiError, ElectionNotNeededError
from penstock.types import NO_OFFSET, TopicPartition


async def order_elections(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None, unclean: bool, deadline_ms: int
) -> dict[TopicPartition, ElectionResult]:
    """What became of each partition; of all (None), those are left out that need no election."""
    named = await _every_partition(cluster, deadline_ms) if partitions is None else list(partitions)
    if partitions is None and len(named) <= PARTITIONS_MAX:
        answer = await _elected(cluster, None, unclean, deadline_ms)
        await _wait_elected(cluster, answer, deadline_ms)
        return dict(answer.results)
    results: dict[TopicPartition, ElectionResult] = {}
    metadata_offset = NO_OFFSET
    for portion in portions(named):
        with after_others(len(results), len(named)):
            answer = await _elected(cluster, portion, unclean, deadline_ms)
        results |= answer.results
        metadata_offset = max(metadata_offset, answer.metadata_offset)
    await _wait_elected(cluster, ElectionAnswer(results, metadata_offset), deadline_ms)
    if partitions is not None:
        return results
    return {tp: result for tp, result in results.items() if not isinstance(result.error, ElectionNotNeededError)}


async def _every_partition(cluster: ClusterClient, deadline_ms: int) -> list[TopicPartition]:
    topics = await cluster.list_topics(deadline_ms)
    return [TopicPartition(topic.name, partition.partition) for topic in topics for partition in topic.partitions]


async def _wait_elected(cluster: ClusterClient, answer: ElectionAnswer, deadline_ms: int) -> None:
    if any(result.error is None for result in answer.results.values()):
        await wait_heard(cluster, answer.metadata_offset, deadline_ms)


async def _elected(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None, unclean: bool, deadline_ms: int
) -> ElectionAnswer:
    """The answer to one request; None asks for all partitions."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions or ():
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    maybe_elected = False  # an attempt failed, and its outcome is unknown

    async def elect(connection: Connection, timeout_ms: int) -> ElectionAnswer:
        nonlocal maybe_elected
        try:
            return await connection.elect_leaders(None if partitions is None else by_topic, unclean, timeout_ms)
        except ApiError as error:
            maybe_elected = maybe_elected or outcome_unknown(error)
            raise

    answer = await cluster.ask_any(elect, deadline_ms)
    results = {tp: _after_attempts(result, maybe_elected) for tp, result in answer.results.items()}
    return ElectionAnswer(results, answer.metadata_offset)


def _after_attempts(result: ElectionResult, maybe_elected: bool) -> ElectionResult:
    """An election that is not needed after an attempt without an answer was made by that attempt."""
    done_before = maybe_elected and isinstance(result.error, ElectionNotNeededError)
    return ElectionResult(result.leader_id) if done_before else result
