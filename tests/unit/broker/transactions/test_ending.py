"""The end of a transaction: decided once, repeated with the same answer, timed out, and told to its partitions."""

from __future__ import annotations

import pytest

from broker.coordination.turn import Turn
from broker.transactions.marker_port import MarkersTicket, MarkersWritten, SendMarkersAgain
from broker.transactions.transaction_metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    InvariantViolation,
    ProducerFencedError,
    UnsupportedVersionError,
)
from penstock.messages.transactions.listing import TransactionState
from penstock.messages.transactions.producers import EndTxnRequest, TxnOffsetCommitRequest
from tests.support.transaction_core import CLIENT, P0, P1, T0_MS, TIMEOUT_MS, TransactionsHere

VERSIONS = pytest.mark.parametrize("version", [1, 2])
ENDS = pytest.mark.parametrize("is_committed", [True, False])
WORD = {True: "Commit", False: "Abort"}


def opened(here: TransactionsHere, version: int = 2, name: str = "t") -> tuple[int, int]:
    producer = here.init(name)
    here.add(producer, P0, P1, name=name, version=version)
    return producer


def at_last_epoch(here: TransactionsHere) -> tuple[int, int]:
    """A producer, as if so many others of the same id had come before it."""
    here.init()
    before = here.transaction()._replace(producer_epoch=EPOCH_MAX - 2)
    here.take(lambda turn: turn.write(TransactionLogKey(transactional_id="t"), before))
    return here.init()


@VERSIONS
@ENDS
def test_a_transaction_is_decided_then_told_then_whole(version: int, is_committed: bool) -> None:
    here = TransactionsHere()
    producer = opened(here, version)
    answer = here.end(producer, is_committed, version=version)
    assert answer == ((-1, -1) if version == 1 else (1000, 1))
    assert here.state() == f"Prepare{WORD[is_committed]}"
    (end,) = here.markers_written()
    assert (end.producer_id, end.producer_epoch) == (1000, 0 if version == 1 else 1)
    assert (end.is_committed, end.partitions, end.transaction_version) == (is_committed, (P0, P1), version)
    assert (here.state(), here.transaction().partitions) == (f"Complete{WORD[is_committed]}", frozenset())


@VERSIONS
@ENDS
def test_a_repeated_end_waits_for_the_markers_and_gets_the_same_answer(version: int, is_committed: bool) -> None:
    here = TransactionsHere()
    producer = opened(here, version)
    answer = here.end(producer, is_committed, version=version)
    for _ in range(2):
        with pytest.raises(ConcurrentTransactionsError):
            here.end(producer, is_committed, version=version)
        here.failover()
    here.markers_written()
    for _ in range(2):
        assert here.end(producer, is_committed, version=version) == answer
        here.failover()
    assert here.counters.committed + here.counters.aborted == 1


@VERSIONS
@ENDS
def test_the_other_end_is_refused_once_one_is_decided(version: int, is_committed: bool) -> None:
    here = TransactionsHere()
    producer = opened(here, version)
    here.end(producer, is_committed, version=version)
    for _ in range(2):
        with pytest.raises(InvalidTxnStateError):
            here.end(producer, not is_committed, version=version)
        here.markers_written()
    assert here.state() == f"Complete{WORD[is_committed]}"


@pytest.mark.parametrize(("added", "ended"), [(1, 2), (2, 1)])
def test_markers_have_the_version_that_the_end_has(added: int, ended: int) -> None:
    """A leader takes a marker of version 2 only with an epoch above that of the batches."""
    here = TransactionsHere()
    here.end(opened(here, added), version=ended)
    (end,) = here.markers_written()
    assert (end.transaction_version, end.producer_epoch) == (ended, ended - 1)


def test_with_version_2_each_transaction_has_an_epoch_of_its_own() -> None:
    here = TransactionsHere()
    producer = here.init()
    for epoch in range(1, 4):
        here.add(producer)
        producer = here.end(producer, epoch % 2 == 0)
        assert producer == (1000, epoch)
        here.markers_written()


def test_with_version_2_the_epoch_before_the_last_is_fenced() -> None:
    here = TransactionsHere()
    first = opened(here)
    second = here.end(first)
    here.markers_written()
    here.add(second)
    with pytest.raises(ProducerFencedError):
        here.end(first)
    here.end(second)
    for _ in range(2):
        with pytest.raises(ProducerFencedError):
            here.end(first)
        here.markers_written()


def test_version_2_may_abort_what_has_not_begun_and_not_commit_it() -> None:
    here = TransactionsHere()
    producer = here.init()
    with pytest.raises(InvalidTxnStateError):
        here.end(producer)
    following = here.end(producer, False)
    assert (following, here.state(), here.sender.sent) == ((1000, 1), "CompleteAbort", [])
    assert here.end(producer, False) == following
    with pytest.raises(InvalidTxnStateError):
        here.end(producer)
    with pytest.raises(InvalidTxnStateError):
        here.end(following)
    assert here.end(following, False) == (1000, 2)
    with pytest.raises(ProducerFencedError):
        here.end(producer, False)


@ENDS
def test_version_1_ends_nothing_that_has_not_begun(is_committed: bool) -> None:
    here = TransactionsHere()
    producer = here.init()
    with pytest.raises(InvalidTxnStateError):
        here.end(producer, is_committed, version=1)


@VERSIONS
def test_others_may_not_end_it(version: int) -> None:
    here = TransactionsHere()
    producer_id, epoch = opened(here, version)
    for epoch_of_other in (epoch - 1, epoch + 1):
        with pytest.raises(ProducerFencedError):
            here.end((producer_id, epoch_of_other), version=version)
    with pytest.raises(InvalidProducerIdMappingError):
        here.end((7, epoch), version=version)
    with pytest.raises(InvalidProducerIdMappingError):
        here.end((producer_id, epoch), name="new", version=version)
    with pytest.raises(InvalidRequestError):
        here.end((producer_id, epoch), name="", version=version)
    assert here.state() == "Ongoing"


@ENDS
def test_the_last_epoch_of_a_producer_id_is_followed_by_a_new_id(is_committed: bool) -> None:
    here = TransactionsHere()
    producer = at_last_epoch(here)
    here.add(producer)
    following = here.end(producer, is_committed)
    assert following == (1001, 0)
    with pytest.raises(ConcurrentTransactionsError):
        here.end(producer, is_committed)
    with pytest.raises(ConcurrentTransactionsError):
        here.end(following, False)
    assert isinstance(here.add(following)[0], ConcurrentTransactionsError)
    here.failover()
    (end,) = here.markers_written()
    assert (end.producer_id, end.producer_epoch) == (1000, EPOCH_MAX)
    assert here.end(producer, is_committed) == following
    here.failover()
    assert here.end(producer, is_committed) == following
    with pytest.raises(InvalidTxnStateError):
        here.end(producer, not is_committed)
    assert here.add(following) == [None]
    with pytest.raises(InvalidProducerIdMappingError):
        here.end(producer, is_committed)


def test_aborting_nothing_with_the_last_epoch_gives_a_new_id_too() -> None:
    here = TransactionsHere()
    producer = at_last_epoch(here)
    assert here.end(producer, False) == (1001, 0) == here.end(producer, False)
    assert here.add((1001, 0)) == [None]


# -- time-outs ---------------------------------------------------------------------------------------------------------


@VERSIONS
def test_an_open_transaction_is_aborted_when_its_time_is_up(version: int) -> None:
    here = TransactionsHere()
    producer = opened(here, version)
    here.wait(TIMEOUT_MS - 1)
    here.add(producer, P0, version=version)
    assert here.state() == "Ongoing"
    here.wait(1)
    assert here.state() == "PrepareAbort"
    (end,) = here.markers_written()
    assert (end.producer_epoch, end.is_committed) == (1, False)
    with pytest.raises(ProducerFencedError if version == 1 else InvalidTxnStateError):
        here.end(producer, version=version)
    assert isinstance(here.add(producer, version=version)[0], ProducerFencedError)
    assert (here.counters.timed_out, here.counters.aborted) == (1, 1)


@VERSIONS
def test_a_commit_after_its_time_says_that_the_time_was_up(version: int) -> None:
    here = TransactionsHere()
    producer = opened(here, version)
    here.wait(TIMEOUT_MS)
    why = f"was open for longer than its time-out of {TIMEOUT_MS} ms, and was aborted"
    for _ in range(2):
        with pytest.raises(ApiError, match=why):
            here.end(producer, version=version)
        here.markers_written()
    assert why in str(here.add(producer, P1, version=version)[0]), "a batch may be what finds out"
    here = TransactionsHere()
    producer = opened(here, version)
    with pytest.raises(ConcurrentTransactionsError):
        here.init()
    here.markers_written()
    here.init()
    with pytest.raises(ApiError) as fenced:
        here.end(producer, version=version)
    assert "time-out" not in str(fenced.value), "another producer has come"


def test_an_epoch_that_no_producer_has_repeats_no_end() -> None:
    here = TransactionsHere()
    with_no_epoch = opened(here, 1)[0], -1
    with pytest.raises(ConcurrentTransactionsError):
        here.init()
    for _ in range(2):
        with pytest.raises(ProducerFencedError):
            here.end(with_no_epoch, False)
        here.markers_written()


def test_a_producer_may_go_on_after_a_time_out() -> None:
    """KIP-588: one of version 1 asks for its next epoch, one of version 2 has it by its abort."""
    for version in (1, 2):
        here = TransactionsHere()
        opened(here, version)
        here.wait(TIMEOUT_MS)

        def goes_on(here: TransactionsHere = here, version: int = version) -> tuple[int, int]:
            return here.init(named=(1000, 0)) if version == 1 else here.end((1000, 0), False)

        for _ in range(2):
            with pytest.raises(ConcurrentTransactionsError):
                goes_on()
            here.failover()
        here.markers_written()
        for _ in range(2):
            assert goes_on() == (1000, 1)
            here.failover()
        assert here.add((1000, 1)) == [None]


def test_one_whose_epochs_are_used_up_is_fenced_by_its_time_out() -> None:
    here = TransactionsHere()
    producer = at_last_epoch(here)
    here.add(producer)
    here.wait(TIMEOUT_MS)
    here.markers_written()
    assert here.transaction().producer_epoch == EPOCH_MAX
    for epoch in (EPOCH_MAX - 1, EPOCH_MAX):
        with pytest.raises(ProducerFencedError):
            here.end((1000, epoch), False)
        with pytest.raises(ProducerFencedError):
            here.init(named=(1000, EPOCH_MAX - 1))
    (refused,) = here.add((1000, EPOCH_MAX))
    assert isinstance(refused, ProducerFencedError), "its time-out would have an epoch that no record can have"
    with pytest.raises(ProducerFencedError):
        here.add_group((1000, EPOCH_MAX), "group")
    assert here.init() == (1001, 0)


@VERSIONS
def test_a_decided_transaction_has_no_time_out(version: int) -> None:
    here = TransactionsHere()
    here.end(opened(here, version), version=version)
    for _ in range(2):
        assert here.shard.timers.due_ms("t") is None
        here.wait(10 * TIMEOUT_MS)
        assert here.state() == "PrepareCommit"
        here.failover()
    assert here.counters.timed_out == 0


def test_the_time_runs_on_over_a_failover() -> None:
    here = TransactionsHere()
    opened(here)
    here.wait(TIMEOUT_MS - 10)
    here.failover()
    here.wait(9)
    assert here.state() == "Ongoing"
    here.wait(1)
    assert here.state() == "PrepareAbort"


def test_a_calendar_that_was_set_back_lengthens_no_transaction_by_more_than_its_time() -> None:
    here = TransactionsHere()
    opened(here)
    here.now_ms -= 10 * TIMEOUT_MS
    here.failover()
    here.wait(TIMEOUT_MS)
    assert here.state() == "PrepareAbort"


def test_the_next_transaction_has_its_own_time() -> None:
    here = TransactionsHere()
    producer = opened(here)
    here.wait(TIMEOUT_MS - 1)
    producer = here.end(producer)
    here.markers_written()
    here.add(producer)
    here.wait(TIMEOUT_MS - 1)
    assert here.state() == "Ongoing"
    here.wait(1)
    assert here.state() == "PrepareAbort"


# -- markers -----------------------------------------------------------------------------------------------------------


@ENDS
def test_after_a_failover_everything_prepared_sends_its_markers_again(is_committed: bool) -> None:
    here = TransactionsHere()
    for name in ("a", "b", "c"):
        here.end(opened(here, name=name), is_committed, name=name)
    opened(here, name="open")
    here.init("empty")
    before = here.sender.sent
    here.failover()
    assert here.sender.sent == before
    here.failover()
    assert here.markers_written() == before
    here.failover()
    assert here.sender.sent == []


def test_markers_that_are_late_or_of_another_transaction_change_nothing() -> None:
    here = TransactionsHere()
    first = opened(here)
    second = here.end(first)
    (end,) = here.markers_written()
    records = len(here.log)
    late = MarkersWritten(end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms)
    here.ask(late)
    here.ask(MarkersWritten("new", 1, 1, 1))
    here.add(second)
    here.end(second, False)
    here.ask(late)
    assert here.state() == "PrepareAbort"
    here.ask(SendMarkersAgain(end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms))
    assert len(here.sender.sent) == 1 and len(here.log) == records + 2


@pytest.mark.parametrize("set_back_ms", [0, 5_000])
def test_late_markers_of_a_producer_with_one_epoch_end_no_later_transaction(set_back_ms: int) -> None:
    """Version 1: the next transaction has the same producer id and epoch, and may be decided at the same time."""
    here = TransactionsHere()
    producer = opened(here, 1)
    here.end(producer, version=1)
    (end,) = here.markers_written()
    here.now_ms -= set_back_ms
    here.add(producer, version=1)
    here.end(producer, False, version=1)
    late = MarkersWritten(end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms)
    here.ask(late)
    here.failover()
    here.ask(late)
    assert here.state() == "PrepareAbort"


def test_an_end_whose_commit_is_unknown_leaves_when_it_is_asked_for_again() -> None:
    here = TransactionsHere()
    producer = opened(here)
    turn = here.turn()
    here.shard.handle(turn, "asker", EndTxnRequest("t", *producer, True, True), CLIENT)
    ((ticket, _),) = [one for one in turn.answers if isinstance(one[0], MarkersTicket)]
    ticket(CoordinatorNotAvailableError("no commit in time"))
    assert here.sender.sent == []
    (end,) = here.sender.unknown
    here.ask(SendMarkersAgain(end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms))
    assert here.markers_written() == [end]


# -- the core ----------------------------------------------------------------------------------------------------------


def test_a_request_about_something_else_is_refused() -> None:
    here = TransactionsHere()
    with pytest.raises(UnsupportedVersionError):
        here.ask(TxnOffsetCommitRequest("t", "g", 1, 0, ()))


def test_what_is_prepared_can_become_only_its_own_end() -> None:
    prepared = TransactionMetadata("t", 1, 0, 1, TransactionState.PREPARE_COMMIT, T0_MS)
    for state in TransactionState:
        if state is not TransactionState.COMPLETE_COMMIT:
            with pytest.raises(InvariantViolation):
                prepared.moved(state, T0_MS)


def test_a_refused_write_leaves_the_state_as_it_was() -> None:
    here = TransactionsHere()
    producer = opened(here)

    class Refused:
        def replay(self, key: object, value: object) -> None:
            raise CoordinatorNotAvailableError("too few replicas")

        replay_marker = replay

    turn = Turn(here.now_ms, here.wall_ms, here.topics, Refused(), lambda: "id")
    with pytest.raises(CoordinatorNotAvailableError):
        here.shard.handle(turn, "asker", EndTxnRequest("t", *producer, True, True), CLIENT)
    assert (here.state(), turn.records, turn.answers) == ("Ongoing", [], [])
    assert here.shard.timers.due_ms("t") is not None
