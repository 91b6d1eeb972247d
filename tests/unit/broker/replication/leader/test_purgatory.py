"""Promises of the purgatories: everybody is called once, in order, and nobody is forgotten."""

from __future__ import annotations

from broker.replication.leader.purgatory import DelayedOperation, LowWatermarkWaiters, OffsetWaiters
from penstock.errors import ERRORS, ApiError, KafkaStorageError, NotLeaderOrFollowerError
from penstock.types import LeaderHint


def test_waiters_are_called_once_in_order_when_their_offset_is_reached() -> None:
    waiters, called = OffsetWaiters(), []
    for offset in (3, 5, 5, 9):
        waiters.add(offset, lambda error, offset=offset: called.append((offset, error)))  # type: ignore[misc]
    waiters.reached(5)
    waiters.reached(5)
    assert called == [(3, None), (5, None), (5, None)]
    assert len(waiters) == 1


def test_a_duplicate_waits_for_the_offset_of_an_older_batch() -> None:
    waiters, called = OffsetWaiters(), []
    for number, offset in enumerate((3, 5, 9, 5, 1)):
        waiters.add(offset, lambda error, number=number: called.append(number))  # type: ignore[misc]
    waiters.reached(4)
    assert called == [4, 0]
    waiters.reached(9)
    assert called == [4, 0, 1, 3, 2]


def test_failing_tells_every_waiter_and_forgets_them() -> None:
    waiters, called = OffsetWaiters(), []
    error = KafkaStorageError("gone")
    waiters.add(3, called.append)
    waiters.fail_all(error)
    waiters.reached(10)
    assert called == [error]


def test_no_waiter_is_told_that_nothing_was_written() -> None:
    hint = LeaderHint(2, 6)
    for error in ERRORS.values():
        waiters, called = OffsetWaiters(), []
        waiters.add(3, called.append)
        waiters.fail_all(error("why", leader=hint))
        assert not called[0].nothing_written and called[0].retriable >= error.retriable
        assert called[0].leader is hint and "why" in str(called[0])


def test_a_waiter_that_gave_up_is_forgotten_and_the_others_are_called() -> None:
    waiters, called = OffsetWaiters(), []
    callbacks = [lambda error, n=n: called.append(n) for n in range(3)]  # type: ignore[misc]
    for callback in callbacks:
        waiters.add(5, callback)
    waiters.discard(callbacks[1])
    waiters.discard(callbacks[1])
    assert len(waiters) == 2
    waiters.reached(5)
    assert called == [0, 2]


def test_a_waiter_may_add_another_while_it_is_told() -> None:
    waiters = OffsetWaiters()
    called: list[ApiError | None] = []
    waiters.add(1, lambda _: waiters.add(9, called.append))
    waiters.fail_all(NotLeaderOrFollowerError("gone"))
    assert len(waiters) == 1 and not called


def test_a_delayed_produce_completes_when_its_last_partition_is_done() -> None:
    completed, expired = [], []
    delayed = DelayedOperation(lambda: completed.append(1), expired.append)
    delayed.expect(0)
    delayed.expect(2)
    assert delayed.all_expected()
    delayed.partition_done(2)
    assert not completed
    delayed.partition_done(0)
    delayed.expire()
    assert completed == [1] and not expired


def test_when_its_time_is_up_only_the_open_partitions_expire() -> None:
    completed, expired = [], []
    delayed = DelayedOperation(lambda: completed.append(1), expired.append)
    for index in range(3):
        delayed.expect(index)
    assert delayed.all_expected()
    delayed.partition_done(1)
    delayed.expire()
    delayed.partition_done(0)
    assert expired == [0, 2] and completed == [1]


def test_a_delayed_produce_is_not_complete_before_its_last_partition_is_expected() -> None:
    completed: list[int] = []
    delayed = DelayedOperation(lambda: completed.append(1), lambda index: None)
    delayed.expect(0)
    delayed.partition_done(0)
    delayed.expect(1)
    assert not completed
    assert delayed.all_expected()
    delayed.partition_done(1)
    assert completed == [1]


def test_a_delayed_produce_with_nothing_to_wait_for_is_complete_at_once() -> None:
    completed: list[int] = []
    assert not DelayedOperation(lambda: completed.append(1), lambda index: None).all_expected()
    assert completed == [1]


def test_deletions_are_told_in_whatever_order_their_offsets_come() -> None:
    waiters, reported = LowWatermarkWaiters(), []
    for offset in (9, 3, 5):
        waiters.add(offset, lambda error, offset=offset: reported.append((offset, error)))  # type: ignore[misc]
    waiters.reached(5)
    assert reported == [(3, None), (5, None)] and len(waiters) == 1


def test_a_deletion_whose_time_is_up_is_forgotten() -> None:
    waiters, reported = LowWatermarkWaiters(), []
    number = waiters.add(3, reported.append)
    waiters.discard(number)
    waiters.discard(number)
    waiters.reached(9)
    waiters.fail_all(NotLeaderOrFollowerError("gone"))
    assert not reported and len(waiters) == 0
