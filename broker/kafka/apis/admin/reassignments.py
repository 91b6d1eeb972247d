"""AlterPartitionReassignments 0 to 1 and ListPartitionReassignments 0 (KIP-455): which brokers have the replicas.

No replicas cancel a reassignment. From version 1 on a client may forbid that the number of replicas changes; it is
compared with the partition in this node's metadata. What is under way is read from there too, for the topics that a
client names or for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker.kafka.api_row import REPLICA_ELEMENTS_MAX, over, serves
from broker.kafka.apis.metadata import topics_named
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError, InvalidReplicationFactorError
from penstock.messages import elections
from penstock.messages.security.acls import Operation

API = "AlterPartitionReassignments"


def alter_partition_reassignments(parts: PlanParts, asked: Asked, body: AlterPartitionReassignmentsRequest) -> Plan:
    parts.rights.check_cluster(asked.caller, API, Operation.ALTER)
    named = _named(body)
    refused: dict[int, ApiError] = {}
    if not body.allow_replication_factor_change:
        image = parts.image()
        found = ((at, _factor_changed(image, one)) for at, one in enumerate(named))
        refused = {at: error for at, error in found if error is not None}
    wanted = tuple(one for at, one in enumerate(named) if at not in refused)
    results: Iterable[elections.ReassignmentResult] = ()
    if wanted:
        request = elections.AlterPartitionReassignmentsRequest(wanted, max(body.timeout_ms, 0))
        results = (yield Ask(API, request)).partitions
    errors = iter([result.error for result in results])
    answered = [(one, refused[at] if at in refused else next(errors)) for at, one in enumerate(named)]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change, responses=_by_topic(asked, answered)
    )


def alter_partition_reassignments_failed(
    asked: Asked, body: AlterPartitionReassignmentsRequest, error: ApiError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=code_of(error, API, asked.version),
        error_message=message_of(error),
        responses=_by_topic(asked, [(one, error) for one in _named(body)]),
    )


def _named(body: AlterPartitionReassignmentsRequest) -> list[elections.ReassignedPartition]:
    return [
        elections.ReassignedPartition(
            topic.name, one.partition_index, None if one.replicas is None else tuple(one.replicas)
        )
        for topic in body.topics
        for one in topic.partitions
    ]


def _factor_changed(image: MetadataImage, asked: elections.ReassignedPartition) -> ApiError | None:
    """The error of a change that would give the partition more replicas, or fewer. An unknown one is the controller's
    to refuse."""
    known = image.partition(asked.topic, asked.partition)
    if known is None or asked.replicas is None or len(asked.replicas) == known.replication_factor:
        return None
    return InvalidReplicationFactorError(
        f"{asked.name} has {known.replication_factor} replicas and would have {len(asked.replicas)}, which the request"
        " does not allow"
    )


def _by_topic(
    asked: Asked, answered: Iterable[tuple[elections.ReassignedPartition, ApiError | None]]
) -> list[ReassignableTopicResponse]:
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for one, error in answered:
        topics.setdefault(one.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=one.partition,
                error_code=code_of(error, API, asked.version),
                error_message=message_of(error),
            )
        )
    return [ReassignableTopicResponse(name=topic, partitions=rows) for topic, rows in topics.items()]


def list_partition_reassignments(parts: PlanParts, asked: Asked, body: ListPartitionReassignmentsRequest) -> Plan:
    parts.rights.check_cluster(asked.caller, "ListPartitionReassignments", Operation.DESCRIBE)
    wanted: Mapping[str, frozenset[int]] | None = None
    if body.topics is not None:
        wanted = {topic.name: frozenset(topic.partition_indexes) for topic in body.topics}
    found = yield from topics_named(None if wanted is None else tuple(wanted))
    topics = []
    for topic in found.topics:
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=p.partition,
                replicas=list(p.replicas),
                adding_replicas=list(p.adding_replicas),
                removing_replicas=list(p.removing_replicas),
            )
            for p in topic.partitions
            if p.is_reassigning and (wanted is None or p.partition in wanted[topic.name])
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(topics=topics)


SERVED: Final = (
    serves(
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        (0, 1),
        over(alter_partition_reassignments),
        failed=alter_partition_reassignments_failed,
        elements_max=REPLICA_ELEMENTS_MAX,
    ),
    serves(
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        (0, 0),
        over(list_partition_reassignments),
    ),
)
