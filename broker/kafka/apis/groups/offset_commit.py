"""OffsetCommit 2 to 10 (key 8): the positions of a group's consumers.

    2 to 4    a retention of its own
    6         the leader epoch of the record before
    7         static members
    9         the clients know STALE_MEMBER_EPOCH, so members of the consumer protocol may commit
    10        topics come by id

A topic or partition that there is not has its error without being asked about. An error of the request is told for each
of its partitions: the answer has no other place. More partitions than one of the node's own requests has are committed
in turns.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.apis.asked_topics import no_partition, topic_named, topic_with_id
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from metadata.image import TopicImage
from penstock.errors import ApiError
from penstock.messages.client_apis import PARTITIONS_MAX
from penstock.messages.groups import offsets as messages
from penstock.messages.groups.group_apis import OFFSET_COMMIT
from penstock.messages.security.acls import Operation
from penstock.types import TopicPartition

FIRST_WITH_STALE_EPOCH: Final = 9
FIRST_WITH_IDS: Final = 10


def offset_commit(parts: PlanParts, asked: Asked, body: OffsetCommitRequest) -> Plan:
    parts.rights.check_group(asked.caller, OFFSET_COMMIT.name, Operation.READ, body.group_id)
    image = parts.image()
    questions: list[messages.OffsetCommitPartition] = []
    asked_for: list[OffsetCommitResponsePartition] = []
    response, answers = _answer(body)
    for number, topic in enumerate(body.topics):
        if is_pause_due(number):
            yield PAUSE
        try:
            found = topic_with_id(image, topic.topic_id) if asked.version >= FIRST_WITH_IDS else None
            name = topic.name if found is None else found.name
            parts.rights.check_topic(asked.caller, OFFSET_COMMIT.name, Operation.READ, name)
            found = found or topic_named(image, name)
        except ApiError as error:
            _fail(asked, [answers[id(part)] for part in topic.partitions], error)
            continue
        for part in topic.partitions:
            if part.partition_index not in found.partitions:
                _fail(asked, [answers[id(part)]], no_partition(found, part.partition_index))
            else:
                questions.append(_question(found, part))
                asked_for.append(answers[id(part)])
    for at in range(0, len(questions), PARTITIONS_MAX):
        some = asked_for[at : at + PARTITIONS_MAX]
        try:
            made: messages.OffsetCommitResponse = yield Ask(
                OFFSET_COMMIT.name, _request(asked, body, questions[at : at + PARTITIONS_MAX])
            )
        except ApiError as error:
            _fail(asked, some, error)
            continue
        for answer, result in zip(some, made.partitions, strict=True):
            answer.error_code = code_of(result.error, OFFSET_COMMIT.name, asked.version)
    return response


def is_pipelined(body: OffsetCommitRequest) -> bool:
    """A commit that one request of the node's own makes keeps its place before whatever its client sends next: the
    group's coordinator decides in the order in which it is asked. So commits of one client share an append."""
    return sum(len(topic.partitions) for topic in body.topics) <= PARTITIONS_MAX


def offset_commit_failed(asked: Asked, body: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    """The answer to a request that failed before its plan began: the error for each of its partitions."""
    response, answers = _answer(body)
    _fail(asked, list(answers.values()), error)
    return response


def _answer(body: OffsetCommitRequest) -> tuple[OffsetCommitResponse, dict[int, OffsetCommitResponsePartition]]:
    """The answer without errors, each topic once; and its partitions, by the identity of those of the request."""
    topics: dict[tuple[str, str], OffsetCommitResponseTopic] = {}
    answers: dict[int, OffsetCommitResponsePartition] = {}
    for topic in body.topics:
        one = topics.setdefault(
            (topic.name, topic.topic_id), OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        )
        for part in topic.partitions:
            answer = answers[id(part)] = OffsetCommitResponsePartition(partition_index=part.partition_index)
            one.partitions.append(answer)
    return OffsetCommitResponse(topics=list(topics.values())), answers


def _fail(asked: Asked, answers: list[OffsetCommitResponsePartition], error: ApiError) -> None:
    code = code_of(error, OFFSET_COMMIT.name, asked.version)
    for answer in answers:
        answer.error_code = code


def _question(topic: TopicImage, part: OffsetCommitRequestPartition) -> messages.OffsetCommitPartition:
    return messages.OffsetCommitPartition(
        TopicPartition(topic.name, part.partition_index),
        part.committed_offset,
        part.committed_leader_epoch,
        part.committed_metadata or "",
        topic.topic_id,
    )


def _request(
    asked: Asked, body: OffsetCommitRequest, partitions: list[messages.OffsetCommitPartition]
) -> messages.OffsetCommitRequest:
    return messages.OffsetCommitRequest(
        body.group_id,
        tuple(partitions),
        body.member_id,
        body.generation_id_or_member_epoch,
        body.group_instance_id,
        body.retention_time_ms,
        knows_stale_epoch=asked.version >= FIRST_WITH_STALE_EPOCH,
    )


SERVED: Final = (
    serves(
        OffsetCommitRequest,
        OffsetCommitResponse,
        (2, 10),
        over(offset_commit),
        failed=offset_commit_failed,
        is_pipelined=is_pipelined,
    ),
)
