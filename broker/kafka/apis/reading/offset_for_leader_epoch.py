"""OffsetForLeaderEpoch: where a leader epoch ends in the leader's log (KIP-320), in versions 2 to 4.

Consumers ask it after a change of leader, to learn whether records that they have read were truncated. The
`replica_id` is not looked at, as in Kafka: the right to describe the topic is enough. Not here: the look-up
(`broker/apis/offset_for_leader_epoch.py`).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import serves
from broker.kafka.apis.asked_topics import topic_named, unless_elsewhere
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from penstock.errors import ApiError
from penstock.messages import offsets as ours
from penstock.messages.client_apis import OFFSET_FOR_LEADER_EPOCH
from penstock.messages.security.acls import Operation
from penstock.types import TopicPartition

API: Final = "OffsetForLeaderEpoch"
PORTION: Final = OFFSET_FOR_LEADER_EPOCH.limits.elements["partitions"]
"""More partitions than one of the node's own requests has are asked in turns."""


class OffsetForLeaderEpochPlans:
    """The plan of OffsetForLeaderEpoch."""

    def __init__(self, parts: PlanParts) -> None:
        self._parts = parts

    def __call__(self, asked: Asked, body: OffsetForLeaderEpochRequest) -> Plan:
        image = self._parts.image()
        rows, questions, answers = [], [], []
        for number, topic in enumerate(body.topics):
            if is_pause_due(number):
                yield PAUSE
            parts = [OffsetForLeaderEpochResponseEpochEndOffset(partition=one.partition) for one in topic.partitions]
            rows.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
            try:
                self._parts.rights.check_topic(asked.caller, API, Operation.DESCRIBE, topic.topic)
                topic_id = topic_named(image, topic.topic).topic_id
            except ApiError as error:
                for part in parts:
                    part.error_code = code_of(error, API, asked.version)
                continue
            answers += parts
            questions += [
                ours.EpochPartition(
                    TopicPartition(topic.topic, one.partition), topic_id, one.leader_epoch, one.current_leader_epoch
                )
                for one in topic.partitions
            ]
        for at in range(0, len(questions), PORTION):
            request = ours.OffsetForLeaderEpochRequest(tuple(questions[at : at + PORTION]))
            found: ours.OffsetForLeaderEpochResponse = yield Ask(API, request)
            for question, result, part in zip(
                request.partitions, found.partitions, answers[at : at + PORTION], strict=True
            ):
                self._tell(asked, question.topic_id, result, part)
        return OffsetForLeaderEpochResponse(topics=rows)

    def _tell(
        self,
        asked: Asked,
        topic_id: str,
        result: ours.EpochPartitionResult,
        part: OffsetForLeaderEpochResponseEpochEndOffset,
    ) -> None:
        if result.error is not None:
            parts = self._parts
            error = unless_elsewhere(parts.image(), parts.node_id, result.partition, topic_id, result.error)
            part.error_code = code_of(error, API, asked.version)
        else:
            part.leader_epoch, part.end_offset = result.leader_epoch, result.end_offset


def failed(asked: Asked, body: OffsetForLeaderEpochRequest, error: ApiError) -> OffsetForLeaderEpochResponse:
    """The answer of a request that failed as a whole."""
    return refusal(body, code_of(error, API, asked.version))


def refusal(body: OffsetForLeaderEpochRequest, code: int) -> OffsetForLeaderEpochResponse:
    """The answer that has this error for each partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponseEpochEndOffset(partition=one.partition, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


SERVED: Final = (
    serves(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, (2, 4), OffsetForLeaderEpochPlans, failed=failed),
)
