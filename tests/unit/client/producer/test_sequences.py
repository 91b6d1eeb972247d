"""When a batch of an idempotent producer may be sent, under which sequence, and when an epoch is over."""

from __future__ import annotations

import pytest

from penstock.client.producer import sequences
from penstock.client.producer.sequences import EPOCH_MAX, IN_FLIGHT_MAX, PartitionSequences, Refusal, SequencePlace
from penstock.errors import (
    InvalidProducerEpochError,
    InvariantViolation,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from penstock.types import ProducerIdAndEpoch as Identity

ID = Identity(7, 0)
OTHER_ID = Identity(8, 0)


def partition() -> PartitionSequences:
    """With a producer id, and nothing sent."""
    made = PartitionSequences()
    assert made.settle(ID)
    return made


def sent(order: PartitionSequences, *record_counts: int) -> list[SequencePlace]:
    """New batches, all with the broker."""
    return [order.on_sent(None, count)[1] for count in record_counts]


def again(order: PartitionSequences, place: SequencePlace) -> tuple[Identity, int]:
    identity, _ = order.on_sent(place, place.record_count)
    return identity, place.sequence


def refuse_twice(order: PartitionSequences, place: SequencePlace) -> None:
    """The oldest batch, which may be written and is with the broker."""
    order.on_back(place, is_unknown=False)
    assert order.on_refused(place, OutOfOrderSequenceError()) is Refusal.DOUBTED
    again(order, place)
    order.on_back(place, is_unknown=False)
    assert order.on_refused(place, OutOfOrderSequenceError()) is Refusal.BEGINS_EPOCH


def test_nothing_is_sent_without_a_producer_id() -> None:
    order = PartitionSequences()
    assert not order.settle(None) and not order.may_send(None)
    with pytest.raises(InvariantViolation):
        order.on_sent(None, 1)
    assert order.settle(ID) and order.may_send(None)
    assert order.on_sent(None, 1)[0] == ID


def test_sequences_count_records_in_the_order_of_the_first_attempts() -> None:
    assert [place.sequence for place in sent(partition(), 3, 1, 5)] == [0, 3, 4]


def test_after_the_largest_sequence_comes_zero() -> None:
    places = sent(partition(), 2**31 - 2, 5, 1)
    assert [place.sequence for place in places] == [0, 2**31 - 2, 3]


def test_no_more_batches_are_with_the_broker_than_it_knows_again() -> None:
    order = partition()
    places = sent(order, *[1] * IN_FLIGHT_MAX)
    assert not order.may_send(None)
    order.on_acked(places[2])
    assert not order.may_send(None), "the first two may have to be known again"
    order.on_acked(places[1])
    order.on_acked(places[0])
    assert order.may_send(None) and [place.sequence for place in sent(order, 1, 1, 1)] == [5, 6, 7]
    assert not order.may_send(None)
    assert not PartitionSequences(100).may_send(None)


def test_a_smaller_limit_of_the_user_holds() -> None:
    order = PartitionSequences(2)
    order.settle(ID)
    sent(order, 1, 1)
    assert not order.may_send(None)


def test_a_batch_is_tried_again_under_its_own_sequence() -> None:
    order = partition()
    first, _ = sent(order, 3, 3)
    order.on_back(first, is_unknown=True)
    assert order.settle(ID)
    assert again(order, first) == (ID, 0)


def test_while_a_batch_is_tried_again_only_the_oldest_is_sent() -> None:
    order = partition()
    first, second, third = sent(order, 1, 1, 1)
    order.on_back(second, is_unknown=False)
    assert not order.may_send(None) and not order.may_send(second), "the first is unresolved"
    order.on_acked(first)
    assert order.may_send(second) and not order.may_send(None)
    again(order, second)
    assert order.may_send(None)
    order.on_back(third, is_unknown=False)
    assert not order.may_send(third) and not order.may_send(None)


@pytest.mark.parametrize("error", [OutOfOrderSequenceError(), UnknownProducerIdError()])
def test_a_refused_batch_behind_another_waits_for_it(error: OutOfOrderSequenceError | UnknownProducerIdError) -> None:
    order = partition()
    first, second = sent(order, 1, 1)
    order.on_back(first, is_unknown=False)
    order.on_back(second, is_unknown=False)
    assert order.on_refused(second, error) is Refusal.WAITS
    assert again(order, first) == (ID, 0)
    order.on_acked(first)
    assert again(order, second) == (ID, 1)


def test_an_answer_to_an_attempt_that_was_not_the_oldest_ends_no_epoch_later() -> None:
    order = partition()
    first, second = sent(order, 1, 1)
    order.on_acked(first)
    order.on_back(second, is_unknown=False)
    assert order.on_refused(second, OutOfOrderSequenceError()) is Refusal.WAITS
    assert again(order, second) == (ID, 1)


@pytest.mark.parametrize("error", [OutOfOrderSequenceError(), UnknownProducerIdError()])
def test_the_oldest_refused_ends_the_epoch_once_nothing_is_with_the_broker(
    error: OutOfOrderSequenceError | UnknownProducerIdError,
) -> None:
    order = partition()
    first, second, third = sent(order, 3, 2, 1)
    order.on_back(first, is_unknown=False)
    assert order.on_refused(first, error) is Refusal.BEGINS_EPOCH
    order.on_back(second, is_unknown=False)
    assert order.settle(ID), "the third is with the broker"
    assert not order.may_send(first) and not order.may_send(None)
    order.on_back(third, is_unknown=False)
    assert order.settle(ID) and again(order, first) == ((7, 1), 0)
    assert [second.sequence, third.sequence] == [3, 5]
    assert (first.doubts, second.doubts, third.doubts) == (0, 0, 0), "each attempt was refused"
    assert not order.may_send(second), "those that were sent before go out one by one"
    for place in (first, second, third):
        if not place.in_flight:
            again(order, place)
        order.on_acked(place)
    assert sent(order, 1)[0].sequence == 6


def test_what_may_be_written_under_an_epoch_that_is_over_is_counted_once_for_the_epoch() -> None:
    order = partition()
    (first,) = sent(order, 1)
    for _ in range(2):
        order.on_back(first, is_unknown=True)
        again(order, first)
    refuse_twice(order, first)
    order.settle(ID)
    assert (first.doubts, first.may_be_written, first.epochs_over) == (1, False, 1)


def test_a_leader_that_may_be_deposed_is_not_believed_at_once_about_what_may_be_written() -> None:
    order = partition()
    (first,) = sent(order, 1)
    for _ in range(2):
        order.on_back(first, is_unknown=True)
        again(order, first)
        order.on_back(first, is_unknown=False)
        assert order.on_refused(first, OutOfOrderSequenceError()) is Refusal.DOUBTED
        again(order, first)


def test_a_batch_behind_one_that_was_not_written_is_not_written_either() -> None:
    order = partition()
    first, second, third, fourth = sent(order, 1, 1, 1, 1)
    for place, is_unknown in ((first, True), (second, True), (third, False), (fourth, True)):
        order.on_back(place, is_unknown=is_unknown)
    again(order, first)
    refuse_twice(order, first)
    order.settle(ID)
    assert [place.doubts for place in (first, second, third, fourth)] == [1, 1, 0, 0]


def test_a_failed_batch_that_was_not_written_ends_the_epoch() -> None:
    order = partition()
    first, second = sent(order, 2, 1)
    order.on_back(first, is_unknown=False)
    order.on_failed(first)
    assert order.settle(ID) and not order.may_send(None), "the second is with the broker"
    order.on_back(second, is_unknown=False)
    order.settle(ID)
    assert again(order, second) == ((7, 1), 0)


def test_a_failed_batch_that_may_be_written_leaves_the_answer_to_those_behind_it() -> None:
    order = partition()
    first, second = sent(order, 2, 1)
    order.on_back(first, is_unknown=True)
    order.on_failed(first)
    order.on_acked(second)
    assert order.settle(ID) and order.on_sent(None, 1)[0] == ID, "it was written"


def test_a_failed_batch_ends_the_epoch_only_behind_those_that_may_be_written() -> None:
    """Under another epoch the first would be written a second time."""
    order = partition()
    first, second, third = sent(order, 2, 3, 1)
    order.on_back(second, is_unknown=False)
    order.on_failed(second)
    assert not order.may_send(None), "nothing new follows what the log has"
    order.on_back(third, is_unknown=False)
    order.on_back(first, is_unknown=True)
    assert order.settle(ID) and again(order, first) == (ID, 0)
    assert not order.may_send(third) and not order.may_send(None)
    order.on_acked(first)
    assert order.settle(ID) and again(order, third) == ((7, 1), 0)
    assert (first.doubts, third.doubts) == (0, 0)


def test_a_batch_that_lost_records_ends_the_epoch_only_behind_those_that_may_be_written() -> None:
    order = partition()
    first, second, third = sent(order, 2, 3, 1)
    order.on_back(second, is_unknown=False)
    rest = order.shrink(second, 2)
    order.on_back(third, is_unknown=False)
    order.on_back(first, is_unknown=True)
    assert order.settle(ID) and again(order, first) == (ID, 0)
    order.on_acked(first)
    assert not order.may_send(rest), "fewer records have other sequences"
    assert order.settle(ID) and again(order, rest) == ((7, 1), 0)
    order.on_acked(rest)
    assert again(order, third) == ((7, 1), 2)
    order.on_acked(third)
    assert order.may_send(None)


def test_a_foreign_epoch_asks_for_another_producer_id() -> None:
    order = partition()
    first, second = sent(order, 1, 1)
    for place in (first, second):
        order.on_back(place, is_unknown=False)
    assert order.on_refused(second, InvalidProducerEpochError()) is Refusal.BEGINS_EPOCH
    assert not order.settle(ID) and not order.may_send(first)
    assert order.settle(OTHER_ID) and again(order, first) == (OTHER_ID, 0)


def test_after_the_last_epoch_comes_another_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EPOCH_MAX == 32_767
    monkeypatch.setattr(sequences, "EPOCH_MAX", 1)
    order = partition()
    for expected in (ID, Identity(7, 1)):
        assert order.settle(ID)
        identity, place = order.on_sent(None, 1)
        assert identity == expected
        order.on_back(place, is_unknown=False)
        order.on_failed(place)
    assert not order.settle(ID)
    assert order.settle(OTHER_ID) and order.on_sent(None, 1)[0] == OTHER_ID


def test_the_parts_of_a_batch_have_its_sequences_in_its_place() -> None:
    order = partition()
    first, second = sent(order, 5, 1)
    order.on_back(first, is_unknown=True)
    low, high = order.split(first, (2, 3))
    assert (low.sequence, high.sequence, second.sequence) == (0, 2, 5)
    assert low.may_be_written and high.may_be_written
    assert order.is_before(low, high) and order.is_before(high, second)
    assert order.may_send(low) and not order.may_send(high)


# -- transactions ------------------------------------------------------------------------------------------------------


def transactional() -> PartitionSequences:
    made = PartitionSequences(used_epochs={7: 5}, is_transactional=True)
    assert made.settle(ID)
    return made


def test_a_partition_begins_at_zero_with_each_transaction_under_exactly_its_epoch() -> None:
    order = transactional()
    for epoch in range(3):
        assert order.settle(Identity(7, epoch))
        places = sent(order, 3, 2)
        assert [place.sequence for place in places] == [0, 3] and order.identity == Identity(7, epoch)
        for place in places:
            order.on_acked(place)
    assert order.settle(OTHER_ID) and order.on_sent(None, 1)[0] == OTHER_ID


def test_a_refused_or_failed_batch_of_a_transaction_begins_no_epoch_before_the_next_transaction() -> None:
    order = transactional()
    first, second = sent(order, 1, 1)
    order.on_back(first, is_unknown=False)
    assert order.on_refused(first, OutOfOrderSequenceError()) is Refusal.BEGINS_EPOCH
    assert order.settle(ID), "the second one is with the broker"
    for place in (first, second):
        order.on_back(place, is_unknown=True)
        order.on_failed(place)
    assert not order.settle(ID) and not order.may_send(None)
    assert order.settle(Identity(7, 1)) and order.on_sent(None, 1)[1].sequence == 0
