"""AddPartitionsToTxn 0 to 5 (key 24): partitions become part of a transaction, before records are sent to them.

    0 to 3    one transaction, as a producer of transaction version 1 sends it
    4         many transactions, each of which may be only looked up: made for brokers, which ask each other by gRPC
              here; answered like the others, as Kafka does without an authorizer. They know TRANSACTION_ABORTABLE

A transaction gets all of its partitions or none (broker/transactions/partitions.py). An error of the request is told
for each partition, from version 4 on by the answer's own `error_code`. A partition of an internal topic gets
TOPIC_AUTHORIZATION_FAILED, with or without an authorizer, as in Kafka: a producer's marker has no place among the
records of a coordinator, which adds its own partition when a group's offsets become part of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from metadata.image import MetadataImage
from metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.errors import (
    ApiError,
    OperationNotAttemptedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.client_apis import PARTITIONS_MAX
from penstock.messages.transactions import producers as messages
from penstock.messages.transactions.transaction_apis import ADD_PARTITIONS_TO_TXN
from penstock.types import TopicPartition

FIRST_WITH_MANY: Final = 4
_NOT_FOR_PRODUCERS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""The metadata's own topic is unknown to clients, and is answered so."""
_NOT_ATTEMPTED: Final = OperationNotAttemptedError("nothing was added: another partition of the request was refused")


@dataclass(slots=True)
class _Named:
    """One transaction of a request, and its place in the answer."""

    request: messages.TransactionPartitions
    topics: list[AddPartitionsToTxnTopicResult]

    @property
    def places(self) -> list[AddPartitionsToTxnPartitionResult]:
        """The results, in the order of the partitions of the request."""
        return [one for topic in self.topics for one in topic.results_by_partition]


def add_partitions_to_txn(parts: PlanParts, asked: Asked, body: AddPartitionsToTxnRequest) -> Plan:
    named = _named(asked, body)
    image = parts.image()
    wanted = [one for one in named if not _refused(asked, image, one)]
    for at in range(0, len(wanted), PARTITIONS_MAX):
        some = wanted[at : at + PARTITIONS_MAX]
        request = messages.AddPartitionsToTxnRequest(tuple(one.request for one in some), waits=True)
        made: messages.AddPartitionsToTxnResponse = yield Ask(ADD_PARTITIONS_TO_TXN.name, request)
        for one, result in zip(some, made.transactions, strict=True):
            for place, answered in zip(one.places, result.partitions, strict=True):
                place.partition_error_code = code_of(answered.error, ADD_PARTITIONS_TO_TXN.name, asked.version)
    return _answer(asked, named)


def add_partitions_to_txn_failed(
    asked: Asked, body: AddPartitionsToTxnRequest, error: ApiError
) -> AddPartitionsToTxnResponse:
    """The answer to a request that failed as a whole."""
    code = code_of(error, ADD_PARTITIONS_TO_TXN.name, asked.version)
    if asked.version >= FIRST_WITH_MANY:
        return AddPartitionsToTxnResponse(error_code=code)
    named = _named(asked, body)
    for place in named[0].places:
        place.partition_error_code = code
    return _answer(asked, named)


def _refused(asked: Asked, image: MetadataImage, one: _Named) -> bool:
    """True for a transaction with partitions of internal topics; its place in the answer is filled then."""
    partitions = one.request.partitions
    if not any(partition.topic in _NOT_FOR_PRODUCERS for partition in partitions):
        return False
    for place, partition in zip(one.places, partitions, strict=True):
        error: ApiError = _NOT_ATTEMPTED
        if partition.topic in _NOT_FOR_PRODUCERS:
            error = TopicAuthorizationFailedError(f"{partition.topic} is the cluster's own topic")
        elif image.partition(*partition) is None:
            error = UnknownTopicOrPartitionError(f"there is no partition {partition}")
        place.partition_error_code = code_of(error, ADD_PARTITIONS_TO_TXN.name, asked.version)
    return True


def _named(asked: Asked, body: AddPartitionsToTxnRequest) -> list[_Named]:
    if asked.version < FIRST_WITH_MANY:
        ids = body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
        return [_one(*ids, body.v3_and_below_topics, verify_only=False)]
    return [
        _one(one.transactional_id, one.producer_id, one.producer_epoch, one.topics, verify_only=one.verify_only)
        for one in body.transactions
    ]


def _one(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: Iterable[AddPartitionsToTxnTopic],
    *,
    verify_only: bool,
) -> _Named:
    """Each topic once in the answer."""
    indexes: dict[str, list[int]] = {}
    for topic in topics:
        indexes.setdefault(topic.name, []).extend(topic.partitions)
    partitions = tuple(TopicPartition(name, index) for name, some in indexes.items() for index in some)
    return _Named(
        messages.TransactionPartitions(transactional_id, producer_id, producer_epoch, partitions, verify_only),
        [
            AddPartitionsToTxnTopicResult(
                name=name,
                results_by_partition=[AddPartitionsToTxnPartitionResult(partition_index=index) for index in some],
            )
            for name, some in indexes.items()
        ],
    )


def _answer(asked: Asked, named: list[_Named]) -> AddPartitionsToTxnResponse:
    if asked.version < FIRST_WITH_MANY:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=named[0].topics)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=one.request.transactional_id, topic_results=one.topics)
            for one in named
        ]
    )


SERVED: Final = (
    serves(
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        (0, 5),
        over(add_partitions_to_txn),
        failed=add_partitions_to_txn_failed,
    ),
)
