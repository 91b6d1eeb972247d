"""Bad requests about transactions at a real node, at both of its listeners: one exact typed error a row.

The codes at Kafka's listener are those of Apache Kafka 4.3.1 to the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from broker.kafka.schemas import transactions as theirs
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka.schemas.producers import InitProducerIdRequest
from penstock.errors import (
    ApiError,
    IllegalGenerationError,
    InvalidGroupIdError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages import produce
from penstock.messages.groups.coordinators import CoordinatorType
from penstock.messages.groups.coordinators import FindCoordinatorRequest as OurFindCoordinatorRequest
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.messages.transactions import atomic_batches, listing, producers
from penstock.messages.transactions.transaction_apis import WRITERS_MAX
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from penstock.types import ProducerIdAndEpoch, TopicPartition
from tests.support.both_protocols import by_grpc, by_kafka, eventually, grpc_codes, kafka_codes

MINUTE_MS = 60_000
NEWEST_INIT = 5
"""The newest InitProducerId that is served; Kafka's newest has two-phase commit."""
ID, EMPTY, GROUP = "writes", "writes nothing", "g"
"""The first id has a transaction open, with a group in it."""
WRITER = "penstock.batch:app#7"


@dataclass
class Stage:
    """A node with a topic of two partitions, the first of which is in the open transaction."""

    bootstrap: str
    kafka: str
    topic: str
    producers: dict[str, tuple[int, int]]
    """By transactional id: producer id and epoch. The epoch is above 0, so that there is an older one."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Cluster(1) as cluster:
        made = Stage(cluster.bootstrap, cluster.kafka_bootstrap, cluster.topic(partitions=2), {})
        for name in (ID, EMPTY):
            found = OurFindCoordinatorRequest((name,), CoordinatorType.TRANSACTION)
            eventually(lambda found=found: _without_error(by_grpc(made.bootstrap, found).coordinators[0]))
            for _ in range(2):
                init = produce.InitProducerIdRequest(name, MINUTE_MS)
                given = eventually(lambda init=init: by_grpc(made.bootstrap, init))
            made.producers[name] = given.producer_id, given.producer_epoch
        eventually(lambda: _without_error(by_grpc(made.bootstrap, OurFindCoordinatorRequest((GROUP,))).coordinators[0]))
        opened = add(ApiError).ours(made)
        assert grpc_codes(made.bootstrap, opened) == {0}
        with_group = add_offsets(ApiError).ours(made)
        assert grpc_codes(made.bootstrap, with_group) == {0}
        yield made


def _without_error(found: Any) -> Any:
    if found.error is not None:
        raise found.error
    return found


class Row(NamedTuple):
    """The request at each listener, and the error that it gets at both."""

    ours: Callable[[Stage], Any]
    kafkas: Callable[[Stage], Any]
    error: type[ApiError]


def _producer(stage: Stage, name: str, id_off: int, epoch_off: int) -> tuple[str, int, int]:
    """The id, the producer and its epoch; an id that there is not has those of the first one."""
    producer_id, epoch = stage.producers.get(name, stage.producers[ID])
    return name, producer_id + id_off, epoch + epoch_off


def _row(make: Callable[[Stage, tuple[str, int, int]], tuple[Any, Any]], error: type[ApiError], **given: Any) -> Row:
    def asked(stage: Stage) -> tuple[Any, Any]:
        who = given.get("name", ID), given.get("id_off", 0), given.get("epoch_off", 0)
        return make(stage, _producer(stage, *who))

    return Row(lambda stage: asked(stage)[0], lambda stage: asked(stage)[1], error)


def init(error: type[ApiError], *, timeout_ms: int = MINUTE_MS, producer: Any = None, name: str = ID) -> Row:
    """`producer` moves the id and the epoch that the producer of the transactional id has; None names none."""

    def make(stage: Stage, who: tuple[str, int, int]) -> tuple[Any, Any]:
        own = (-1, -1) if producer is None else producer(*who[1:])
        whole = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}
        whole |= {"producer_id": own[0], "producer_epoch": own[1]}
        return produce.InitProducerIdRequest(**whole), InitProducerIdRequest(**whole)

    return _row(make, error, name=name)


def add(error: type[ApiError], **given: Any) -> Row:
    def make(stage: Stage, who: tuple[str, int, int]) -> tuple[Any, Any]:
        mine = producers.TransactionPartitions(
            *who, (TopicPartition(stage.topic, given.get("partition", 0)),), given.get("verify_only", False)
        )
        topic = theirs.AddPartitionsToTxnTopic(name=stage.topic, partitions=[given.get("partition", 0)])
        one = theirs.AddPartitionsToTxnTransaction(
            transactional_id=who[0],
            producer_id=who[1],
            producer_epoch=who[2],
            verify_only=given.get("verify_only", False),
            topics=[topic],
        )
        return producers.AddPartitionsToTxnRequest((mine,)), theirs.AddPartitionsToTxnRequest(transactions=[one])

    return _row(make, error, **given)


def add_offsets(error: type[ApiError], **given: Any) -> Row:
    def make(stage: Stage, who: tuple[str, int, int]) -> tuple[Any, Any]:
        fields = dict(zip(("transactional_id", "producer_id", "producer_epoch"), who, strict=True))
        return producers.AddOffsetsToTxnRequest(*who, GROUP), theirs.AddOffsetsToTxnRequest(**fields, group_id=GROUP)

    return _row(make, error, **given)


def end(error: type[ApiError], *, is_committed: bool = True, **given: Any) -> Row:
    def make(stage: Stage, who: tuple[str, int, int]) -> tuple[Any, Any]:
        fields = dict(zip(("transactional_id", "producer_id", "producer_epoch"), who, strict=True))
        ours = producers.EndTxnRequest(*who, is_committed, bumps_epoch=True)
        return ours, theirs.EndTxnRequest(**fields, committed=is_committed)

    return _row(make, error, **given)


def commit(error: type[ApiError], **given: Any) -> Row:
    group, member = given.get("group", GROUP), given.get("member", ("", -1))
    partition, metadata = given.get("partition", 0), given.get("metadata", "")

    def make(stage: Stage, who: tuple[str, int, int]) -> tuple[Any, Any]:
        part = OffsetCommitPartition(TopicPartition(stage.topic, partition), 1, -1, metadata)
        ours = producers.TxnOffsetCommitRequest(who[0], group, *who[1:], (part,), *member, adds_group=True)
        their_part = theirs.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=metadata
        )
        topic = theirs.TxnOffsetCommitRequestTopic(name=stage.topic, partitions=[their_part])
        fields = dict(zip(("transactional_id", "producer_id", "producer_epoch"), who, strict=True))
        request = theirs.TxnOffsetCommitRequest(
            **fields, group_id=group, member_id=member[0], generation_id=member[1], topics=[topic]
        )
        return ours, request

    return _row(make, error, **given)


ROWS: dict[str, Row] = {
    "a producer of an empty id": init(InvalidRequestError, name=""),
    "a time-out of 0": init(InvalidTransactionTimeoutError, timeout_ms=0),
    "a time-out below 0": init(InvalidTransactionTimeoutError, timeout_ms=-1),
    "a time-out of days": init(InvalidTransactionTimeoutError, timeout_ms=1_000_000_000),
    "a producer with the id of an atomic batch": init(InvalidRequestError, name=WRITER),
    "a group of a writer of an atomic batch": add_offsets(InvalidRequestError, name=WRITER),
    "an end of a writer of an atomic batch": end(InvalidRequestError, name=WRITER),
    "a partition of a writer that there is not": add(InvalidProducerIdMappingError, name=WRITER),
    "a producer that names its id alone": init(InvalidRequestError, producer=lambda own, epoch: (own, -1)),
    "a producer that names its epoch alone": init(InvalidRequestError, producer=lambda own, epoch: (-1, epoch)),
    "a producer that goes on as another one": init(ProducerFencedError, producer=lambda own, epoch: (own + 999, 0)),
    "a producer that goes on in an epoch to come": init(
        ProducerFencedError, producer=lambda own, epoch: (own, epoch + 7)
    ),
    **{
        f"{name} of {whose}": make(error, **given)
        for name, make in (("partitions", add), ("a group", add_offsets), ("an end", end))
        for whose, error, given in (
            ("an id that there is not", InvalidProducerIdMappingError, {"name": "nobody's"}),
            ("an empty id", InvalidRequestError, {"name": ""}),
            ("another producer", InvalidProducerIdMappingError, {"id_off": 999}),
            ("an older producer", ProducerFencedError, {"epoch_off": -1}),
            ("an epoch to come", ProducerFencedError, {"epoch_off": 5}),
        )
    },
    "a look for a partition that was not added": add(TransactionAbortableError, partition=1, verify_only=True),
    "a commit of nothing": end(InvalidTxnStateError, name=EMPTY),
    "offsets of an empty group": commit(InvalidGroupIdError, group=""),
    "offsets of a group of 300 characters": commit(InvalidGroupIdError, group="x" * 300),
    "offsets of a member of a group that there is not": commit(
        IllegalGenerationError, group="nobody's", member=("m", 3)
    ),
    "offsets of another producer": commit(InvalidProducerIdMappingError, id_off=999),
    "offsets of an older producer": commit(InvalidProducerEpochError, epoch_off=-1),
    "offsets of an epoch to come": commit(InvalidProducerEpochError, epoch_off=5),
    "offsets with a text that is too long": commit(OffsetMetadataTooLargeError, metadata="x" * 5_000),
    "offsets of a partition that there is not": commit(UnknownTopicOrPartitionError, partition=9),
}


BATCHES: list[tuple[int, dict[str, Any], type[ApiError]]] = [
    (version, given, error)
    for given, error in (
        ({"name": None}, TransactionalIdAuthorizationFailedError),
        ({"name": ""}, InvalidRequestError),
        ({"name": "nobody's"}, InvalidProducerIdMappingError),
        ({"epoch_off": -1}, InvalidProducerEpochError),
        ({"epoch_off": 5}, InvalidProducerEpochError),
        ({"id_off": 999}, InvalidProducerIdMappingError),
    )
    for version in (3, 10, 11, 12)
]
BATCHES += [(3, {}, InvalidTxnStateError), (10, {}, InvalidTxnStateError), (11, {}, TransactionAbortableError)]
"""For a partition that the producer has not added, in a version of Produce."""


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_request_gets_its_own_error_by_both_protocols(stage: Stage, name: str) -> None:
    row = ROWS[name]
    request = row.kafkas(stage)
    version = NEWEST_INIT if isinstance(request, InitProducerIdRequest) else None
    assert grpc_codes(stage.bootstrap, row.ours(stage)) == {row.error.code}
    assert kafka_codes(stage.kafka, request, version) == {row.error.code}


@pytest.mark.parametrize("version", range(6))
def test_an_older_version_of_kafkas_gets_the_code_that_it_knows(stage: Stage, version: int) -> None:
    fenced = InvalidProducerEpochError if version < 2 else ProducerFencedError
    assert kafka_codes(stage.kafka, end(ProducerFencedError, epoch_off=-1).kafkas(stage), version) == {fenced.code}


def test_offsets_of_a_member_that_there_is_not(stage: Stage) -> None:
    """The group is there by now, with offsets of the transaction alone."""
    assert grpc_codes(stage.bootstrap, commit(ApiError).ours(stage)) == {0}
    row = commit(UnknownMemberIdError, member=("m", 3))
    assert grpc_codes(stage.bootstrap, row.ours(stage)) == {UnknownMemberIdError.code}
    assert kafka_codes(stage.kafka, row.kafkas(stage)) == {UnknownMemberIdError.code}


def test_descriptions_and_lists_of_what_there_is_not(stage: Stage) -> None:
    ids = ("nobody's", "", ID)
    described = by_grpc(stage.bootstrap, listing.DescribeTransactionsRequest(ids)).transactions
    codes = [TransactionalIdNotFoundError.code, InvalidRequestError.code, 0]
    assert [one.error.code if one.error else 0 for one in described] == codes
    shown = by_kafka(stage.kafka, theirs.DescribeTransactionsRequest(transactional_ids=list(ids))).transaction_states
    assert [one.error_code for one in shown] == codes
    odd = listing.ListTransactionsRequest(("ongoing",))
    found = by_grpc(stage.bootstrap, odd)
    assert (found.transactions, found.unknown_states) == ((), ("ongoing",))
    listed = by_kafka(stage.kafka, theirs.ListTransactionsRequest(state_filters=["ongoing"]))
    assert (listed.error_code, listed.transaction_states, listed.unknown_state_filters) == (0, [], ["ongoing"])
    for pattern in ("((", "(?=a)b"):
        wrong = listing.ListTransactionsRequest(pattern=pattern)
        assert grpc_codes(stage.bootstrap, wrong) == {InvalidRegularExpressionError.code}
        kafkas = theirs.ListTransactionsRequest(transactional_id_pattern=pattern)
        assert kafka_codes(stage.kafka, kafkas) == {InvalidRegularExpressionError.code}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (atomic_batches.BeginAtomicBatchRequest("", 0, MINUTE_MS), InvalidRequestError),
        (atomic_batches.BeginAtomicBatchRequest("a#1", 0, MINUTE_MS), InvalidRequestError),
        (atomic_batches.BeginAtomicBatchRequest("a", -1, MINUTE_MS), InvalidRequestError),
        (atomic_batches.BeginAtomicBatchRequest("a", 0, 0), InvalidTransactionTimeoutError),
        (atomic_batches.CommitAtomicBatchRequest("a", 0, (ProducerIdAndEpoch(1, 0),)), InvalidTxnStateError),
        (atomic_batches.CommitAtomicBatchRequest("a", 0, (ProducerIdAndEpoch(1, 0),) * 2), InvalidRequestError),
        (atomic_batches.CommitAtomicBatchRequest("a", 0, records=-2), InvalidRequestError),
        (atomic_batches.AbortAtomicBatchRequest("a", -3), InvalidRequestError),
    ],
)
def test_an_atomic_batch_that_cannot_be(stage: Stage, request_: Any, error: type[ApiError]) -> None:
    assert grpc_codes(stage.bootstrap, request_) == {error.code}


def test_a_commit_with_more_writers_than_a_version_may_have(stage: Stage) -> None:
    writers = tuple(ProducerIdAndEpoch(number, 0) for number in range(WRITERS_MAX + 1))
    request = atomic_batches.CommitAtomicBatchRequest("a", 0, writers)
    assert grpc_codes(stage.bootstrap, request) == {InvalidRequestError.code}


def test_a_key_of_another_kind_has_no_coordinator(stage: Stage) -> None:
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[ID])
    assert kafka_codes(stage.kafka, asked) == {InvalidRequestError.code}


@pytest.mark.parametrize(("version", "given", "error"), BATCHES)
def test_a_batch_of_a_transaction_that_cannot_be(
    stage: Stage, version: int, given: dict[str, Any], error: type[ApiError]
) -> None:
    name, partition = given.get("name", ID), given.get("partition", 1)
    _, producer_id, epoch = _producer(stage, name or ID, given.get("id_off", 0), given.get("epoch_off", 0))
    batch = build_batch(
        [b"v"],
        timestamps_ms=1_700_000_000_000,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    part = PartitionProduceData(index=partition, records=batch)
    topics = [TopicProduceData(name=stage.topic, partition_data=[part])]
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=topics)
    assert kafka_codes(stage.kafka, request, version) == {error.code}


def test_after_all_of_this_the_transaction_is_committed(stage: Stage) -> None:
    described = by_grpc(stage.bootstrap, listing.DescribeTransactionsRequest((ID,))).transactions[0]
    assert (described.state, described.error) == ("Ongoing", None)
    assert TopicPartition(stage.topic, 0) in described.partitions
    committed = by_grpc(stage.bootstrap, end(ApiError).ours(stage))
    assert committed.producer_epoch == stage.producers[ID][1] + 1
