"""CreatePartitions 0 to 3: more partitions for topics. One answer for each name, in the order of the request.

Kafka's assignment has the replicas of the new partitions without their numbers: they begin behind the last partition in
the metadata of this node, and the controller refuses them if there are more by now.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from broker.kafka.api_row import REPLICA_ELEMENTS_MAX, over, serves
from broker.kafka.apis.asked_topics import check_number, each_once
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from penstock.errors import ApiError, InvalidReplicaAssignmentError, InvalidRequestError
from penstock.messages import topics


def create_partitions(parts: PlanParts, asked: Asked, body: CreatePartitionsRequest) -> Plan:
    check_number(body.topics)
    empty = InvalidReplicaAssignmentError(
        "the assignment names no replicas; leave it out, or name those of every partition"
    )
    refused: dict[str, ApiError] = {topic.name: empty for topic in body.topics if topic.assignments == []}
    for name, times in Counter(topic.name for topic in body.topics).items():
        if times > 1:
            refused[name] = InvalidRequestError(f"topic {name[:64]!r} is named {times} times in the request")
    wanted = tuple(_wanted(parts, topic) for topic in body.topics if topic.name not in refused)
    results: list[topics.TopicResult] = []
    if wanted:
        request = topics.CreatePartitionsRequest(wanted, body.validate_only, max(body.timeout_ms, 0))
        results = list((yield Ask("CreatePartitions", request)).topics)
    answers = iter(results)
    return CreatePartitionsResponse(
        results=[
            _row(asked, topic.name, refused[topic.name] if topic.name in refused else next(answers).error)
            for topic in _topics(body)
        ]
    )


def create_partitions_failed(asked: Asked, body: CreatePartitionsRequest, error: ApiError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_row(asked, topic.name, error) for topic in _topics(body)])


def _topics(body: CreatePartitionsRequest) -> list[CreatePartitionsTopic]:
    """Each topic that the answer has."""
    return each_once(body.topics, lambda topic: topic.name)


def _wanted(parts: PlanParts, topic: CreatePartitionsTopic) -> topics.NewPartitions:
    known = parts.image().topic(topic.name)
    first = 0 if known is None else len(known.partitions)
    assignment = tuple(
        topics.ReplicaAssignment(first + number, tuple(one.broker_ids))
        for number, one in enumerate(topic.assignments or ())
    )
    return topics.NewPartitions(topic.name, topic.count, assignment)


def _row(asked: Asked, name: str, error: ApiError | None) -> CreatePartitionsTopicResult:
    code = code_of(error, "CreatePartitions", asked.version)
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message_of(error))


SERVED: Final = (
    serves(
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        (0, 3),
        over(create_partitions),
        failed=create_partitions_failed,
        elements_max=REPLICA_ELEMENTS_MAX,
    ),
)
