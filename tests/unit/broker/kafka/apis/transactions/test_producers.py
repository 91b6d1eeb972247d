"""Promises of the APIs of transactional producers at Kafka's listener: each version is asked and answered in its
terms."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.plan import Ask, Plan
from broker.kafka.schemas import transactions as schemas
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    GroupIdNotFoundError,
    InvalidGroupIdError,
    InvalidProducerIdMappingError,
    NetworkError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    OperationNotAttemptedError,
    ProducerFencedError,
    StaleMemberEpochError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.client_apis import PARTITIONS_MAX
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitResult
from penstock.messages.transactions import producers as messages
from penstock.types import TopicPartition
from tests.support.kafka_plans import ME, asked, ended, first_ask, parts_of, read_by_client, topic_of
from tests.support.kafka_rows import TRANSACTIONS, rows_over

T, U = "T" * 21 + "A", "U" * 21 + "A"
PARTS = parts_of(topic_of("t", T, ME, ME), topic_of("u", U, ME))
ROWS = {row.name: row for row in rows_over(PARTS, *TRANSACTIONS)}
OK, UNKNOWN_TOPIC, NOT_ATTEMPTED = 0, 3, 55
Named = tuple[str, list[int]]


def plan_of(name: str, version: int, body: Any) -> Plan:
    assert ROWS[name].serves(version)
    return ROWS[name].plan(asked(version), read_by_client(body, version))


def refused(name: str, version: int, body: Any, error: ApiError) -> Any:
    """The answer to a request that the node refuses as a whole."""
    return read_by_client(failed_answer(ROWS[name], asked(version), body, error), version)


# -- AddPartitionsToTxn ------------------------------------------------------------------------------------------------


def adding(version: int, *topics: Named, verify_only: bool = False) -> schemas.AddPartitionsToTxnRequest:
    named = [schemas.AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics]
    if version < 4:
        return schemas.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=7,
            v3_and_below_producer_epoch=1,
            v3_and_below_topics=named,
        )
    one = schemas.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=7, producer_epoch=1, verify_only=verify_only, topics=named
    )
    return schemas.AddPartitionsToTxnRequest(transactions=[one])


def added(answer: Any, version: int) -> list[tuple[str, int, int]]:
    read = read_by_client(answer, version)
    topics = read.results_by_topic_v3_and_below if version < 4 else read.results_by_transaction[0].topic_results
    return [
        (one.name, part.partition_index, part.partition_error_code)
        for one in topics
        for part in one.results_by_partition
    ]


def outcomes(ask: messages.AddPartitionsToTxnRequest, error: ApiError | None) -> messages.AddPartitionsToTxnResponse:
    return messages.AddPartitionsToTxnResponse(
        tuple(
            messages.TransactionPartitionResults(
                one.transactional_id,
                tuple(messages.TransactionPartitionResult(key, error) for key in one.partitions),
            )
            for one in ask.transactions
        )
    )


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_a_transaction_gets_no_partition_of_an_internal_topic(internal: str, version: int) -> None:
    """Its marker would stand among a coordinator's records. Kafka says so without an authorizer, too."""
    body = adding(version, ("t", [0]), (internal, [0, 9]), ("gone", [0]))
    with pytest.raises(StopIteration) as end:
        next(plan_of("AddPartitionsToTxn", version, body))
    assert added(end.value.value, version) == [
        ("t", 0, NOT_ATTEMPTED),
        (internal, 0, 29),
        (internal, 9, 29),
        ("gone", 0, UNKNOWN_TOPIC),
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_a_refused_transaction_does_not_stop_the_others_of_its_request(version: int) -> None:
    body = adding(version, ("__consumer_offsets", [0]))
    body.transactions += adding(version, ("t", [0])).transactions
    plan = plan_of("AddPartitionsToTxn", version, body)
    ask = first_ask(plan, "AddPartitionsToTxn")
    assert [one.partitions for one in ask.transactions] == [(TopicPartition("t", 0),)]
    read = read_by_client(ended(plan, outcomes(ask, None)), version)
    codes = [
        part.partition_error_code
        for one in read.results_by_transaction
        for topic in one.topic_results
        for part in topic.results_by_partition
    ]
    assert codes == [29, OK]


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_to_a_transaction(version: int) -> None:
    plan = plan_of("AddPartitionsToTxn", version, adding(version, ("t", [1, 0]), ("u", [0])))
    ask = first_ask(plan, "AddPartitionsToTxn")
    keys = TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("u", 0)
    assert ask.transactions == (messages.TransactionPartitions("x", 7, 1, keys),)
    assert added(ended(plan, outcomes(ask, None)), version) == [("t", 1, OK), ("t", 0, OK), ("u", 0, OK)]


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_may_only_look_partitions_up(version: int) -> None:
    ask = first_ask(
        plan_of("AddPartitionsToTxn", version, adding(version, ("t", [0]), verify_only=True)), "AddPartitionsToTxn"
    )
    assert ask.transactions[0].verify_only


def all_or_none(ask: messages.AddPartitionsToTxnRequest, unknown: set[str]) -> messages.AddPartitionsToTxnResponse:
    """As the coordinator answers: a transaction with a partition of these topics gets none of its partitions."""

    def error(one: messages.TransactionPartitions, key: TopicPartition) -> ApiError | None:
        if key.topic in unknown:
            return UnknownTopicOrPartitionError("gone")
        return OperationNotAttemptedError("another") if any(k.topic in unknown for k in one.partitions) else None

    return messages.AddPartitionsToTxnResponse(
        tuple(
            messages.TransactionPartitionResults(
                one.transactional_id,
                tuple(messages.TransactionPartitionResult(key, error(one, key)) for key in one.partitions),
            )
            for one in ask.transactions
        )
    )


@pytest.mark.parametrize("version", range(6))
def test_each_partition_has_the_coordinators_error(version: int) -> None:
    plan = plan_of("AddPartitionsToTxn", version, adding(version, ("t", [0]), ("gone", [0, 3])))
    ask = first_ask(plan, "AddPartitionsToTxn")
    assert added(ended(plan, all_or_none(ask, {"gone"})), version) == [
        ("t", 0, NOT_ATTEMPTED),
        ("gone", 0, UNKNOWN_TOPIC),
        ("gone", 3, UNKNOWN_TOPIC),
    ]


def test_one_transaction_of_many_that_cannot_be_does_not_stop_the_others() -> None:
    body = adding(5, ("gone", [0]))
    body.transactions += adding(5, ("t", [0])).transactions
    plan = plan_of("AddPartitionsToTxn", 5, body)
    ask = first_ask(plan, "AddPartitionsToTxn")
    read = read_by_client(ended(plan, all_or_none(ask, {"gone"})), 5).results_by_transaction
    assert [one.topic_results[0].results_by_partition[0].partition_error_code for one in read] == [UNKNOWN_TOPIC, OK]


def test_a_topic_that_is_named_twice_is_answered_once() -> None:
    plan = plan_of("AddPartitionsToTxn", 3, adding(3, ("t", [0]), ("t", [1, 1])))
    ask = first_ask(plan, "AddPartitionsToTxn")
    read = read_by_client(ended(plan, outcomes(ask, None)), 3).results_by_topic_v3_and_below
    assert [(one.name, [part.partition_index for part in one.results_by_partition]) for one in read] == [
        ("t", [0, 1, 1])
    ]


@pytest.mark.parametrize("version", range(6))
def test_a_request_that_names_no_topic_is_asked_for_all_the_same(version: int) -> None:
    """As in Kafka, the producer is checked, and nothing is answered of partitions."""
    plan = plan_of("AddPartitionsToTxn", version, adding(version))
    ask = first_ask(plan, "AddPartitionsToTxn")
    assert added(ended(plan, outcomes(ask, ProducerFencedError())), version) == []


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFencedError(), [47, 47, 90, 90, 90, 90]),
        (TransactionAbortableError(), [48, 48, 48, 48, 120, 120]),
        (InvalidProducerIdMappingError(), [49] * 6),
        (ConcurrentTransactionsError(), [51] * 6),
        (NotCoordinatorError(), [16] * 6),
        (NetworkError(), [15] * 6),
    ],
    ids=lambda value: getattr(value, "kafka_name", ""),
)
def test_an_error_of_a_partition_is_one_that_the_version_knows(error: ApiError, codes: list[int]) -> None:
    for version, code in enumerate(codes):
        plan = plan_of("AddPartitionsToTxn", version, adding(version, ("t", [0])))
        ask = first_ask(plan, "AddPartitionsToTxn")
        assert added(ended(plan, outcomes(ask, error)), version) == [("t", 0, code)]


def test_an_error_of_the_request_is_where_the_version_has_its_place() -> None:
    error = CoordinatorLoadInProgressError()
    assert added(refused("AddPartitionsToTxn", 3, adding(3, ("t", [0, 1])), error), 3) == [("t", 0, 14), ("t", 1, 14)]
    assert refused("AddPartitionsToTxn", 4, adding(4, ("t", [0])), error).error_code == 14


# -- AddOffsetsToTxn and EndTxn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_a_group_is_added_to_a_transaction(version: int) -> None:
    body = schemas.AddOffsetsToTxnRequest(transactional_id="x", producer_id=7, producer_epoch=1, group_id="g")
    plan = plan_of("AddOffsetsToTxn", version, body)
    assert first_ask(plan, "AddOffsetsToTxn") == messages.AddOffsetsToTxnRequest("x", 7, 1, "g", waits=True)
    assert read_by_client(ended(plan, messages.AddOffsetsToTxnResponse()), version).error_code == OK


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_an_end_of_transaction_version_2_tells_the_next_epoch(version: int, is_committed: bool) -> None:
    body = schemas.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=1, committed=is_committed)
    plan = plan_of("EndTxn", version, body)
    bumps = version == 5
    assert first_ask(plan, "EndTxn") == messages.EndTxnRequest("x", 7, 1, is_committed, bumps)
    made = messages.EndTxnResponse(7, 2) if bumps else messages.EndTxnResponse()
    read = read_by_client(ended(plan, made), version)
    assert (read.error_code, read.producer_id, read.producer_epoch) == ((0, 7, 2) if bumps else (0, -1, -1))


@pytest.mark.parametrize("name", ["AddOffsetsToTxn", "EndTxn"])
@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFencedError(), [47, 47, 90, 90, 90]),
        (TransactionAbortableError(), [48, 48, 48, 48, 120]),
        (NetworkError(), [15] * 5),
    ],
    ids=lambda value: getattr(value, "kafka_name", ""),
)
def test_an_error_of_the_end_is_one_that_the_version_knows(name: str, error: ApiError, codes: list[int]) -> None:
    body = ROWS[name].request(transactional_id="x")
    assert [refused(name, version, body, error).error_code for version in range(len(codes))] == codes


def test_an_end_that_is_refused_tells_no_epoch() -> None:
    read = refused("EndTxn", 5, schemas.EndTxnRequest(), ProducerFencedError())
    assert (read.error_code, read.producer_id, read.producer_epoch) == (90, -1, -1)


# -- TxnOffsetCommit ---------------------------------------------------------------------------------------------------


def committing(version: int, *offsets: tuple[str, int, int], **fields: Any) -> schemas.TxnOffsetCommitRequest:
    topics = [
        schemas.TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[schemas.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)],
        )
        for topic, index, offset in offsets
    ]
    if version >= 2:
        for one in topics:
            one.partitions[0].committed_leader_epoch = 4
    member = {"generation_id": 3, "member_id": "m", "group_instance_id": "i"} if version >= 3 else {}
    given = {"transactional_id": "x", "group_id": "g", "producer_id": 7, "producer_epoch": 1, "topics": topics}
    return schemas.TxnOffsetCommitRequest(**{**given, **member, **fields})


def codes_of(read: schemas.TxnOffsetCommitResponse) -> list[tuple[str, int, int]]:
    return [(topic.name, part.partition_index, part.error_code) for topic in read.topics for part in topic.partitions]


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_transaction_have_an_outcome_for_each_partition(version: int) -> None:
    body = committing(version, ("t", 0, 5), ("gone", 0, 5), ("t", 9, 5), ("u", 0, 6))
    plan = plan_of("TxnOffsetCommit", version, body)
    epoch = 4 if version >= 2 else -1
    partitions = (
        OffsetCommitPartition(TopicPartition("t", 0), 5, epoch, "", T),
        OffsetCommitPartition(TopicPartition("u", 0), 6, epoch, "", U),
    )
    member = ("m", 3, "i") if version >= 3 else ("", -1, "")
    request = messages.TxnOffsetCommitRequest("x", "g", 7, 1, partitions, *member, adds_group=version == 5)
    assert first_ask(plan, "TxnOffsetCommit") == request
    results = (
        OffsetCommitResult(partitions[0].partition, OffsetMetadataTooLargeError()),
        OffsetCommitResult(partitions[1].partition),
    )
    read = read_by_client(ended(plan, messages.TxnOffsetCommitResponse(results)), version)
    assert codes_of(read) == [("t", 0, 12), ("t", 9, UNKNOWN_TOPIC), ("gone", 0, UNKNOWN_TOPIC), ("u", 0, OK)]


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFencedError(), [47] * 6),
        (TransactionAbortableError(), [48, 48, 48, 48, 120, 120]),
        (StaleMemberEpochError(), [22] * 6),
        (GroupIdNotFoundError(), [22] * 6),
        (InvalidGroupIdError(), [24] * 6),
        (CoordinatorLoadInProgressError(), [15, 15, 14, 14, 14, 14]),
        (ConcurrentTransactionsError(), [14, 14, 14, 14, 14, 51]),
        (NetworkError(), [15] * 6),
    ],
    ids=lambda value: getattr(value, "kafka_name", ""),
)
def test_an_error_of_a_commit_is_told_for_each_partition_as_the_version_knows_it(
    error: ApiError, codes: list[int]
) -> None:
    for version, code in enumerate(codes):
        body = committing(version, ("t", 0, 5), ("u", 0, 6))
        plan = plan_of("TxnOffsetCommit", version, body)
        next(plan)
        expected = [("t", 0, code), ("u", 0, code)]
        assert codes_of(read_by_client(ended(plan, error), version)) == expected
        assert codes_of(refused("TxnOffsetCommit", version, body, error)) == expected


def test_more_partitions_than_the_node_takes_at_once_are_committed_in_turns() -> None:
    body = committing(5, *([("t", 0, 5)] * (PARTITIONS_MAX + 1)))
    plan = plan_of("TxnOffsetCommit", 5, body)
    first = first_ask(plan, "TxnOffsetCommit")
    done = messages.TxnOffsetCommitResponse(tuple(OffsetCommitResult(one.partition) for one in first.partitions))
    second = plan.send(done)
    assert isinstance(second, Ask)
    assert (len(first.partitions), len(second.body.partitions)) == (PARTITIONS_MAX, 1)
    read = read_by_client(ended(plan, NotCoordinatorError()), 5)
    assert [code for _, _, code in codes_of(read)] == [OK] * PARTITIONS_MAX + [16]


def test_a_commit_of_nothing_is_answered_at_once() -> None:
    with pytest.raises(StopIteration) as end:
        next(plan_of("TxnOffsetCommit", 5, committing(5)))
    assert codes_of(end.value.value) == []
