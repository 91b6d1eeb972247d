"""The partitions of a transaction: added all or none, looked up, and refused."""

from __future__ import annotations

import pytest

from broker.coordination.partition_of import partition_of
from broker.transactions.transaction_config import TransactionConfig
from penstock.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTopicError,
    OperationNotAttemptedError,
    ProducerFencedError,
    ResourceExhaustedError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition
from tests.support.transaction_core import P0, P1, TransactionsHere


def kinds(errors: list[Exception | None]) -> list[type | None]:
    return [None if error is None else type(error) for error in errors]


def test_the_first_partition_begins_the_transaction_and_others_join_it() -> None:
    here = TransactionsHere()
    producer = here.init()
    assert here.add(producer, P0) == [None]
    began_ms = here.transaction().start_ms
    here.wait(100)
    assert here.add(producer, P1, P1) == [None, None]
    assert (here.state(), here.transaction().partitions) == ("Ongoing", {P0, P1})
    assert began_ms == here.transaction().start_ms == here.wall_ms - 100


def test_adding_what_is_there_writes_nothing() -> None:
    here = TransactionsHere()
    producer = here.init()
    here.add(producer, P0)
    records = len(here.log)
    assert here.add(producer, P0) == [None]
    assert len(here.log) == records


@pytest.mark.parametrize(
    "unknown", [TopicPartition("nope", 0), TopicPartition("orders", 4), TopicPartition("orders", -1)]
)
def test_one_unknown_partition_means_that_none_is_added(unknown: TopicPartition) -> None:
    here = TransactionsHere()
    producer = here.init()
    assert kinds(here.add(producer, P0, unknown)) == [OperationNotAttemptedError, UnknownTopicOrPartitionError]
    assert here.state() == "Empty"


def test_verifying_adds_nothing() -> None:
    here = TransactionsHere()
    producer = here.init()
    assert kinds(here.add(producer, P0, verify_only=True)) == [TransactionAbortableError]
    here.add(producer, P0)
    assert kinds(here.add(producer, P0, P1, verify_only=True)) == [None, TransactionAbortableError]
    assert here.transaction().partitions == {P0}


@pytest.mark.parametrize("verify_only", [False, True])
def test_a_producer_that_is_not_the_newest_is_refused(verify_only: bool) -> None:
    here = TransactionsHere()
    producer_id, epoch = here.init()
    for epoch_of_other in (epoch - 1, epoch + 1):
        assert kinds(here.add((producer_id, epoch_of_other), verify_only=verify_only)) == [ProducerFencedError]
    assert kinds(here.add((7, epoch), verify_only=verify_only)) == [InvalidProducerIdMappingError]
    assert kinds(here.add((producer_id, epoch), name="new", verify_only=verify_only)) == [InvalidProducerIdMappingError]
    assert kinds(here.add((producer_id, epoch), name="", verify_only=verify_only)) == [InvalidRequestError]


@pytest.mark.parametrize("verify_only", [False, True])
def test_while_the_last_transaction_is_being_ended_it_is_to_be_tried_again(verify_only: bool) -> None:
    here = TransactionsHere()
    producer = here.init()
    here.add(producer)
    following = here.end(producer)
    assert kinds(here.add(following, verify_only=verify_only)) == [ConcurrentTransactionsError]
    here.markers_written()
    assert here.add(following, P1) == [None]
    assert here.transaction().partitions == {P1}


def test_a_group_is_added_as_the_partition_that_holds_it() -> None:
    here = TransactionsHere()
    producer = here.init()
    here.add_group(producer, "g")
    assert here.transaction().partitions == {TopicPartition("__consumer_offsets", partition_of("g", 50))}
    with pytest.raises(InvalidGroupIdError):
        here.add_group(producer, "")
    with pytest.raises(ProducerFencedError):
        here.add_group((producer[0], 9), "g")
    with pytest.raises(InvalidProducerIdMappingError):
        here.add_group(producer, "g", name="new")
    with pytest.raises(InvalidRequestError):
        here.add_group(producer, "g", name="")


@pytest.mark.parametrize("verify_only", [False, True])
def test_the_state_of_transactions_is_part_of_none(verify_only: bool) -> None:
    """A marker there would be a second writer of a coordinator's log."""
    here = TransactionsHere()
    here.topics.make("__transaction_state", 50)
    producer = here.init()
    partitions = P0, TopicPartition("__transaction_state", 0)
    assert kinds(here.add(producer, *partitions, verify_only=verify_only)) == [InvalidTopicError] * 2
    assert here.state() == "Empty"


def test_a_group_cannot_be_added_before_its_topic_is_there() -> None:
    here = TransactionsHere()
    producer = here.init()
    del here.topics.facts["__consumer_offsets"]
    with pytest.raises(CoordinatorNotAvailableError):
        here.add_group(producer, "g")


def test_a_transaction_has_a_largest_number_of_partitions() -> None:
    here = TransactionsHere()
    here.topics.make("wide", 100_000)
    producer = here.init()
    many = [TopicPartition("wide", number) for number in range(20_000)]
    assert set(here.add(producer, *many)) == {None}
    assert kinds(here.add(producer, TopicPartition("wide", 20_000))) == [InvalidRequestError]
    assert len(here.transaction().partitions) == 20_000


def test_above_the_share_of_memory_no_transaction_grows_until_others_end() -> None:
    here = TransactionsHere(memory_bytes=100_000)
    here.topics.make("wide", 1_000)
    first, second = here.init("1"), here.init("2")
    many = [TopicPartition("wide", number) for number in range(1_000)]
    assert set(here.add(first, *many[:300], name="1")) == {None}
    for producer, name in ((first, "1"), (second, "2")):
        assert set(kinds(here.add(producer, *many[300:], name=name))) == {ResourceExhaustedError}
    assert here.add(first, many[0], name="1") == [None], "it is there"
    here.end(first, name="1")
    here.markers_written()
    assert here.add(second, many[0], name="2") == [None]


def test_a_transaction_whose_record_would_be_too_large_is_refused_before_it_is_written() -> None:
    here = TransactionsHere(TransactionConfig(record_bytes_max=2_000))
    here.topics.make("x" * 249, 100)
    here.topics.make("y" * 249, 1_000)
    producer = here.init()
    assert here.add(producer, TopicPartition("x" * 249, 0), TopicPartition("y" * 249, 0)) == [None, None]
    many = [TopicPartition("y" * 249, number) for number in range(500)]
    assert kinds(here.add(producer, *many)) == [InvalidRequestError] * 500
    assert len(here.transaction().partitions) == 2
    assert here.end(producer)[1] == 1
