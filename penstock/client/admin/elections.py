"""Orders elections of leaders (KIP-460). Any broker takes the request, and forwards it to the controller.

An order for many partitions goes in several requests (portions.py). A call ends when every broker in service has heard
of the outcome. Not here: which replica may be elected; the controller knows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.admin.changes import change
from penstock.client.admin.configs import wait_heard
from penstock.client.admin.portions import PARTITIONS_MAX, after_others, portions
from penstock.client.cluster.cluster import ClusterClient
from penstock.errors import ApiError, ElectionNotNeededError
from penstock.lazy_dataclass import dataclass
from penstock.messages.client_apis import ELECT_LEADERS
from penstock.messages.elections import ElectionType, ElectLeadersRequest, ElectLeadersResponse, NamedPartitions
from penstock.types import NO_OFFSET, TopicPartition


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The leader of a partition after an ordered election, or as it is where the error says why none was made."""

    leader_id: int
    error: ApiError | None = None


async def order_elections(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None, unclean: bool, deadline_ms: int
) -> dict[TopicPartition, ElectionResult]:
    """The result for each partition; of all (None), those are left out that need no election."""
    named = await _every_partition(cluster, deadline_ms) if partitions is None else list(partitions)
    if partitions is None and len(named) <= PARTITIONS_MAX:
        answer = await _elected(cluster, None, unclean, deadline_ms)
        await _wait_elected(cluster, _by_partition(answer), answer.metadata_offset, deadline_ms)
        return _by_partition(answer)
    results: dict[TopicPartition, ElectionResult] = {}
    metadata_offset = NO_OFFSET
    for portion in portions(named):
        with after_others(len(results), len(named)):
            answer = await _elected(cluster, portion, unclean, deadline_ms)
        results |= _by_partition(answer)
        metadata_offset = max(metadata_offset, answer.metadata_offset)
    await _wait_elected(cluster, results, metadata_offset, deadline_ms)
    if partitions is not None:
        return results
    return {tp: result for tp, result in results.items() if not isinstance(result.error, ElectionNotNeededError)}


async def _every_partition(cluster: ClusterClient, deadline_ms: int) -> list[TopicPartition]:
    topics = await cluster.list_topics(deadline_ms)
    return [TopicPartition(topic.name, partition.partition) for topic in topics for partition in topic.partitions]


async def _wait_elected(
    cluster: ClusterClient, results: Mapping[TopicPartition, ElectionResult], metadata_offset: int, deadline_ms: int
) -> None:
    if any(result.error is None for result in results.values()):
        await wait_heard(cluster, metadata_offset, deadline_ms)


async def _elected(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None, unclean: bool, deadline_ms: int
) -> ElectLeadersResponse:
    """The answer to one request; None asks for all partitions."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions or ():
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    named = tuple(NamedPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items())
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    request = ElectLeadersRequest(kind, None if partitions is None else named)
    return await change(cluster, ELECT_LEADERS, request, deadline_ms)


def _by_partition(answer: ElectLeadersResponse) -> dict[TopicPartition, ElectionResult]:
    return {TopicPartition(r.topic, r.partition): ElectionResult(r.leader_id, r.error) for r in answer.partitions}
