"""DeleteRecords (key 21): every record below an offset goes, of partitions that this broker leads (KIP-107).

Topics come by name, and -1 means the high watermark. Not here: the deletion (`broker/apis/delete_records.py`).
"""

from __future__ import annotations

from itertools import count
from typing import Final

from broker.apis.delete_records import TIMEOUT_MS_MAX
from broker.kafka.api_row import RECORD_ELEMENTS_MAX, serves
from broker.kafka.apis.asked_topics import no_partition, topic_named, unless_elsewhere
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, MakePlan, Plan, is_pause_due
from broker.kafka.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages import offsets as messages
from penstock.messages.client_apis import DELETE_RECORDS
from penstock.messages.security.acls import Operation
from penstock.types import NO_OFFSET, TopicPartition


def delete_records_plan(parts: PlanParts) -> MakePlan:
    """Makes the plan of a request."""

    def plan(asked: Asked, body: DeleteRecordsRequest) -> Plan:
        image, response, numbers = parts.image(), DeleteRecordsResponse(), count()
        questions: list[messages.DeleteRecordsPartition] = []
        answers: list[DeleteRecordsPartitionResult] = []

        def fail(answer: DeleteRecordsPartitionResult, error: ApiError) -> None:
            answer.error_code = code_of(error, DELETE_RECORDS.name, asked.version)

        for topic in body.topics:
            results = [_unknown(part.partition_index) for part in topic.partitions]
            response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
            for part, answer in zip(topic.partitions, results, strict=True):
                if is_pause_due(next(numbers)):
                    yield PAUSE
                try:
                    parts.rights.check_topic(asked.caller, DELETE_RECORDS.name, Operation.DELETE, topic.name)
                    questions.append(_question(image, topic.name, part))
                    answers.append(answer)
                except ApiError as error:
                    fail(answer, error)
        if questions:
            timeout_ms = min(max(body.timeout_ms, 0), TIMEOUT_MS_MAX)
            try:
                made = yield Ask(DELETE_RECORDS.name, messages.DeleteRecordsRequest(tuple(questions), timeout_ms))
            except ApiError as error:
                for answer in answers:
                    fail(answer, error)
                return response
            for question, answer, result in zip(questions, answers, made.partitions, strict=True):
                answer.low_watermark = result.low_watermark
                if result.error is not None:
                    key, topic_id = question.partition, question.topic_id
                    fail(answer, unless_elsewhere(parts.image(), parts.node_id, key, topic_id, result.error))
        return response

    return plan


def delete_records_failed(asked: Asked, body: DeleteRecordsRequest, error: ApiError) -> DeleteRecordsResponse:
    """The answer to a request that failed before its plan began: the error for each of its partitions."""
    code, response = code_of(error, DELETE_RECORDS.name, asked.version), DeleteRecordsResponse()
    for topic in body.topics:
        results = [_unknown(part.partition_index, code) for part in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _unknown(index: int, code: int = 0) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_OFFSET, error_code=code)


def _question(image: MetadataImage, name: str, part: DeleteRecordsPartition) -> messages.DeleteRecordsPartition:
    topic = topic_named(image, name)
    if part.partition_index not in topic.partitions:
        raise no_partition(topic, part.partition_index)
    return messages.DeleteRecordsPartition(TopicPartition(name, part.partition_index), topic.topic_id, part.offset)


SERVED: Final = (
    serves(
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        (0, 2),
        delete_records_plan,
        failed=delete_records_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
)
