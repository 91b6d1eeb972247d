"""DescribeProducers (key 61): the idempotent producers that partitions know (KIP-664). Followers answer, too, as in
Kafka: `kafka-transactions.sh find-hanging --broker-id` asks one broker for each partition of which it has a replica.

Not here: the look at the logs (`broker/apis/describe_producers.py`).
"""

from __future__ import annotations

from itertools import count
from typing import Final

from broker.kafka.api_row import RECORD_ELEMENTS_MAX, serves
from broker.kafka.apis.asked_topics import no_partition, topic_named, unless_elsewhere
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, MakePlan, Plan, is_pause_due
from broker.kafka.schemas.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages import produce as messages
from penstock.messages.admin_apis import DESCRIBE_PRODUCERS
from penstock.messages.security.acls import Operation
from penstock.topic_names import validate_topic_name
from penstock.types import TopicPartition

PORTION = DESCRIBE_PRODUCERS.limits.elements["partitions"]
NONE = -1
"""No coordinator has ended a transaction, or no transaction is open."""


def describe_producers_plan(parts: PlanParts) -> MakePlan:
    """Makes the plan of a request. More partitions than one of the node's own requests has are asked in turns."""

    def plan(asked: Asked, body: DescribeProducersRequest) -> Plan:
        image, response, numbers = parts.image(), DescribeProducersResponse(), count()
        questions: list[messages.DescribeProducersPartition] = []
        answers: list[PartitionResponse] = []
        for topic in body.topics:
            rows = [PartitionResponse(partition_index=index) for index in topic.partition_indexes]
            response.topics.append(TopicResponse(name=topic.name, partitions=rows))
            for answer in rows:
                if is_pause_due(next(numbers)):
                    yield PAUSE
                try:
                    parts.rights.check_topic(asked.caller, DESCRIBE_PRODUCERS.name, Operation.READ, topic.name)
                    questions.append(_question(image, topic.name, answer.partition_index))
                    answers.append(answer)
                except ApiError as error:
                    _fail(answer, error, asked.version)
        for at in range(0, len(questions), PORTION):
            request = messages.DescribeProducersRequest(tuple(questions[at : at + PORTION]), of_replicas=True)
            made = yield Ask(DESCRIBE_PRODUCERS.name, request)
            answered = zip(request.partitions, answers[at : at + PORTION], made.partitions, strict=True)
            for question, answer, result in answered:
                answer.active_producers = [_state(one) for one in result.producers]
                if result.error is not None:
                    key, topic_id = question.partition, question.topic_id
                    why = unless_elsewhere(parts.image(), parts.node_id, key, topic_id, result.error)
                    _fail(answer, why, asked.version)
        return response

    return plan


def describe_producers_failed(
    asked: Asked, body: DescribeProducersRequest, error: ApiError
) -> DescribeProducersResponse:
    """The answer to a request that failed as a whole: the error for each of its partitions."""
    response = DescribeProducersResponse()
    for topic in body.topics:
        rows = [PartitionResponse(partition_index=index) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(name=topic.name, partitions=rows))
        for answer in rows:
            _fail(answer, error, asked.version)
    return response


def _fail(answer: PartitionResponse, error: ApiError, version: int) -> None:
    answer.error_code, answer.error_message = code_of(error, DESCRIBE_PRODUCERS.name, version), message_of(error)


def _question(image: MetadataImage, name: str, index: int) -> messages.DescribeProducersPartition:
    validate_topic_name(name)
    topic = topic_named(image, name)
    if index not in topic.partitions:
        raise no_partition(topic, index)
    return messages.DescribeProducersPartition(TopicPartition(name, index), topic.topic_id)


def _state(state: messages.ProducerState) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_append_ms,
        coordinator_epoch=_or_none(state.coordinator_epoch),
        current_txn_start_offset=_or_none(state.transaction_start_offset),
    )


def _or_none(value: int | None) -> int:
    return NONE if value is None else value


SERVED: Final = (
    serves(
        DescribeProducersRequest,
        DescribeProducersResponse,
        (0, 0),
        describe_producers_plan,
        failed=describe_producers_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
)
