"""ListOffsets: the offset of a partition at a time, or at one of its ends, in versions 1 to 11.

    -1  the high watermark; to a reader of committed records the last stable offset
    -2  the log start                                   -3  the record with the largest timestamp (v7, KIP-734)
    -4  the start of the log on this node (v8)          -5  the end of the tiered part of the log (v9, KIP-1005)
    -6  the first offset that is still to be uploaded to tiered storage (v11, KIP-1023)

Without tiered storage -4 is the log start, and -5 and -6 are -1, as in Kafka. -1 with the timestamp -1 is also the
answer where no record is as late as asked. The `replica_id` is not looked at: the caller is always a client, because
brokers ask each other by gRPC, and kafka-python 3.0.0 to 3.0.11 sends 0. Kafka tells such a client the end of the log
in place of the high watermark. Not here: the look-up (`broker/apis/list_offsets.py`).
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Final

from broker.kafka.api_row import serves
from broker.kafka.apis.asked_topics import topic_named, unless_elsewhere
from broker.kafka.apis.reading.isolation import reads_committed
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError, InvalidRequestError, UnsupportedVersionError
from penstock.messages import offsets as ours
from penstock.messages.client_apis import LIST_OFFSETS
from penstock.messages.security.acls import Operation
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicPartition

API: Final = "ListOffsets"
PORTION: Final = LIST_OFFSETS.limits.elements["partitions"]
"""More partitions than one of the node's own requests has are asked in turns."""
EPOCHS_FROM: Final = 4
"""The first version whose answers have leader epochs."""
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP = -4, -5, -6
SINCE: Final = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The first version with this timestamp."""


class ListOffsetsPlans:
    """The plan of ListOffsets."""

    def __init__(self, parts: PlanParts) -> None:
        self._parts = parts

    def __call__(self, asked: Asked, body: ListOffsetsRequest) -> Plan:
        image = self._parts.image()
        named = Counter((topic.name, one.partition_index) for topic in body.topics for one in topic.partitions)
        rows, questions, numbers = [], [], count()
        for topic in body.topics:
            answers = []
            for one in topic.partitions:
                if is_pause_due(next(numbers)):
                    yield PAUSE
                answer = ListOffsetsPartitionResponse(partition_index=one.partition_index)
                answers.append(answer)
                try:
                    if named[topic.name, one.partition_index] > 1:
                        raise InvalidRequestError(f"{topic.name}-{one.partition_index} is asked for twice")
                    self._parts.rights.check_topic(asked.caller, API, Operation.DESCRIBE, topic.name)
                    question = _question(image, asked, topic.name, one)
                except ApiError as error:
                    answer.error_code = code_of(error, API, asked.version)
                    continue
                if question is not None:
                    questions.append((question, answer))
            rows.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for at in range(0, len(questions), PORTION):
            yield from self._ask(asked, body, questions[at : at + PORTION])
        return ListOffsetsResponse(topics=rows)

    def _ask(
        self,
        asked: Asked,
        body: ListOffsetsRequest,
        questions: list[tuple[ours.ListOffsetsPartition, ListOffsetsPartitionResponse]],
    ) -> Plan:
        """Fills in the answers."""
        wanted = tuple(question for question, _ in questions)
        question_of_all = ours.ListOffsetsRequest(
            wanted, timeout_ms=max(body.timeout_ms, 0), read_committed=reads_committed(body.isolation_level)
        )
        found: ours.ListOffsetsResponse = yield Ask(API, question_of_all)
        for result, (question, answer) in zip(found.partitions, questions, strict=True):
            if result.error is not None:
                key, topic_id = question.partition, question.topic_id
                error = unless_elsewhere(self._parts.image(), self._parts.node_id, key, topic_id, result.error)
                answer.error_code = code_of(error, API, asked.version)
            else:
                answer.timestamp, answer.offset = result.timestamp_ms, result.offset
                if asked.version >= EPOCHS_FROM:
                    answer.leader_epoch = result.leader_epoch


def _question(
    image: MetadataImage, asked: Asked, name: str, one: ListOffsetsPartition
) -> ours.ListOffsetsPartition | None:
    """None if the answer is known: there is no such offset."""
    timestamp_ms = one.timestamp
    if timestamp_ms < 0 and SINCE.get(timestamp_ms, asked.version + 1) > asked.version:
        raise UnsupportedVersionError(f"version {asked.version} has no timestamp {timestamp_ms}")
    topic = topic_named(image, name)
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return None
    if timestamp_ms == EARLIEST_LOCAL_TIMESTAMP:
        timestamp_ms = EARLIEST_TIMESTAMP
    key = TopicPartition(name, one.partition_index)
    return ours.ListOffsetsPartition(key, topic.topic_id, timestamp_ms, one.current_leader_epoch)


def failed(asked: Asked, body: ListOffsetsRequest, error: ApiError) -> ListOffsetsResponse:
    """The answer of a request that failed as a whole."""
    return refusal(body, code_of(error, API, asked.version))


def refusal(body: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    """The answer that has this error for each partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


SERVED: Final = (serves(ListOffsetsRequest, ListOffsetsResponse, (1, 11), ListOffsetsPlans, failed=failed),)
