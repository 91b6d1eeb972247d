"""TxnOffsetCommit 0 to 5 (key 28): positions of a group that count when a transaction is committed (KIP-447).

    2   the leader epoch of the record before
    3   the member that sends them, which is checked
    4   the clients know TRANSACTION_ABORTABLE
    5   transaction version 2 (KIP-890): nobody has added the group to the transaction before

A topic or partition that there is not has its error without being asked about. An error of the request is told for each
of its partitions: the answer has no other place. More partitions than one of the node's own requests has are committed
in turns.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.apis.asked_topics import no_partition, topic_named
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages.client_apis import PARTITIONS_MAX
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.messages.security.acls import Operation
from penstock.messages.transactions import producers as messages
from penstock.messages.transactions.transaction_apis import TXN_OFFSET_COMMIT
from penstock.types import TopicPartition

FIRST_THAT_ADDS_GROUP: Final = 5


def txn_offset_commit(parts: PlanParts, asked: Asked, body: TxnOffsetCommitRequest) -> Plan:
    parts.rights.check_transactional_id(asked.caller, TXN_OFFSET_COMMIT.name, body.transactional_id)
    parts.rights.check_group(asked.caller, TXN_OFFSET_COMMIT.name, Operation.READ, body.group_id)
    image, response = parts.image(), TxnOffsetCommitResponse()
    questions: list[OffsetCommitPartition] = []
    places: list[TxnOffsetCommitResponsePartition] = []
    for number, (name, place, part) in enumerate(_placed(response, body)):
        if is_pause_due(number):
            yield PAUSE
        try:
            parts.rights.check_topic(asked.caller, TXN_OFFSET_COMMIT.name, Operation.READ, name)
            questions.append(_question(image, name, part))
            places.append(place)
        except ApiError as error:
            _fail(asked, [place], error)
    for at in range(0, len(questions), PARTITIONS_MAX):
        some, request = places[at : at + PARTITIONS_MAX], _request(asked, body, questions[at : at + PARTITIONS_MAX])
        try:
            made: messages.TxnOffsetCommitResponse = yield Ask(TXN_OFFSET_COMMIT.name, request)
        except ApiError as error:
            _fail(asked, some, error)
            continue
        for place, result in zip(some, made.partitions, strict=True):
            place.error_code = code_of(result.error, TXN_OFFSET_COMMIT.name, asked.version)
    return response


def txn_offset_commit_failed(asked: Asked, body: TxnOffsetCommitRequest, error: ApiError) -> TxnOffsetCommitResponse:
    """The answer to a request that failed before its plan began: the error for each of its partitions."""
    response = TxnOffsetCommitResponse()
    _fail(asked, [place for _, place, _ in _placed(response, body)], error)
    return response


_Placed = tuple[str, TxnOffsetCommitResponsePartition, TxnOffsetCommitRequestPartition]
"""A topic's name, the place of a partition in the answer, and the partition of the request."""


def _placed(response: TxnOffsetCommitResponse, body: TxnOffsetCommitRequest) -> list[_Placed]:
    """Gives every partition its place in the answer, each topic once."""
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    found = []
    for topic in body.topics:
        rows = topics.setdefault(topic.name, TxnOffsetCommitResponseTopic(name=topic.name)).partitions
        for part in topic.partitions:
            place = TxnOffsetCommitResponsePartition(partition_index=part.partition_index)
            rows.append(place)
            found.append((topic.name, place, part))
    response.topics = list(topics.values())
    return found


def _question(image: MetadataImage, name: str, part: TxnOffsetCommitRequestPartition) -> OffsetCommitPartition:
    topic = topic_named(image, name)
    if part.partition_index not in topic.partitions:
        raise no_partition(topic, part.partition_index)
    return OffsetCommitPartition(
        TopicPartition(name, part.partition_index),
        part.committed_offset,
        part.committed_leader_epoch,
        part.committed_metadata or "",
        topic.topic_id,
    )


def _request(
    asked: Asked, body: TxnOffsetCommitRequest, partitions: list[OffsetCommitPartition]
) -> messages.TxnOffsetCommitRequest:
    return messages.TxnOffsetCommitRequest(
        body.transactional_id,
        body.group_id,
        body.producer_id,
        body.producer_epoch,
        tuple(partitions),
        body.member_id,
        body.generation_id,
        body.group_instance_id or "",
        adds_group=asked.version >= FIRST_THAT_ADDS_GROUP,
    )


def _fail(asked: Asked, places: list[TxnOffsetCommitResponsePartition], error: ApiError) -> None:
    code = code_of(error, TXN_OFFSET_COMMIT.name, asked.version)
    for place in places:
        place.error_code = code


SERVED: Final = (
    serves(
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        (0, 5),
        over(txn_offset_commit),
        failed=txn_offset_commit_failed,
    ),
)
