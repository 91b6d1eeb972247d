"""ElectLeaders 0 to 2: preferred leaders, and from version 1 on unclean ones (KIP-183, KIP-460).

No list means every partition; then those are left out that need no election. A topic that names no partition asks for
none. What a partition is told is its own; a request that fails as a whole says so beside that, from version 1 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.errors import ApiError
from penstock.messages import elections

API = "ElectLeaders"


def elect_leaders(asked: Asked, body: ElectLeadersRequest) -> Plan:
    topics = None
    if body.topic_partitions is not None:
        topics = tuple(
            elections.NamedPartitions(named.topic, tuple(named.partitions))
            for named in body.topic_partitions
            if named.partitions
        )
    results: Iterable[elections.ElectLeadersResult] = ()
    if topics is None or topics:
        request = elections.ElectLeadersRequest(body.election_type, topics, max(body.timeout_ms, 0))
        results = (yield Ask(API, request)).partitions
    return ElectLeadersResponse(replica_election_results=_by_topic(asked, results))


def elect_leaders_failed(asked: Asked, body: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    results = (
        elections.ElectLeadersResult(named.topic, partition, error)
        for named in body.topic_partitions or ()
        for partition in named.partitions
    )
    code = code_of(error, API, asked.version) if asked.version >= 1 else 0
    return ElectLeadersResponse(error_code=code, replica_election_results=_by_topic(asked, results))


def _by_topic(asked: Asked, results: Iterable[elections.ElectLeadersResult]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            PartitionResult(
                partition_id=result.partition,
                error_code=code_of(result.error, API, asked.version),
                error_message=message_of(result.error),
            )
        )
    return [ReplicaElectionResult(topic=topic, partition_result=found) for topic, found in topics.items()]


SERVED: Final = (
    serves(ElectLeadersRequest, ElectLeadersResponse, (0, 2), alone(elect_leaders), failed=elect_leaders_failed),
)
