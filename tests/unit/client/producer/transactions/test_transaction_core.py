"""A producer's transactions without I/O, against a scripted coordinator: what is asked, and what the user is told."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from penstock.client.producer.transactions.transaction_core import MOVES, Phase, TransactionCore
from penstock.errors import (
    BootstrapError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    FatalProducerError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    InvariantViolation,
    MessageTooLargeError,
    NetworkError,
    NotCoordinatorError,
    PenstockError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionStateError,
    UnknownServerError,
    UnsupportedVersionError,
)
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.producers import EndTxnRequest, EndTxnResponse
from penstock.types import ProducerIdAndEpoch

ME = ProducerIdAndEpoch(7, 3)


TIMEOUT_MS = 60_000


def end_of(core: TransactionCore) -> EndTxnRequest | None:
    """The end that the coordinator is asked for once all is flushed; None where it is told nothing."""
    if not core.on_flushed():
        return None
    asked = core.question(TIMEOUT_MS)
    assert isinstance(asked, EndTxnRequest)
    return asked


def core_in(phase: Phase) -> TransactionCore:
    core = TransactionCore("tx")
    if phase is Phase.NEW:
        return core
    core.on_initialized(ME)
    if phase is Phase.READY:
        return core
    core.begin()
    core.on_sent()
    if phase is Phase.ABORTING:
        core.begin_abort()
    elif phase is Phase.FATAL:
        core.on_failed(ProducerFencedError())
    elif phase is not Phase.OPEN:
        core.begin_commit()
    if phase is Phase.COMMITTING:
        core.on_flushed()
    assert core.phase is phase
    return core


def test_each_transaction_is_ended_under_its_own_epoch_and_the_answer_gives_the_next() -> None:
    core = core_in(Phase.READY)
    for number, ends in enumerate((core.begin_commit, core.begin_abort, core.begin_commit)):
        core.begin()
        core.must_take_records()
        core.on_sent()
        ends()
        assert core.on_flushed()
        assert core.question(TIMEOUT_MS) == EndTxnRequest(
            "tx", 7, 3 + number, ends == core.begin_commit, bumps_epoch=True
        )
        core.on_ended(EndTxnResponse(7, 4 + number))
    assert (core.committed, core.aborted, core.identity) == (2, 1, ProducerIdAndEpoch(7, 6))


def test_a_producer_whose_epochs_are_used_up_goes_on_under_another_id() -> None:
    core = core_in(Phase.COMMITTING)
    core.on_ended(EndTxnResponse(8, 0))
    assert core.identity == ProducerIdAndEpoch(8, 0)


@pytest.mark.parametrize("answer", [EndTxnResponse(-1, -1), EndTxnResponse(7, -1), EndTxnResponse(7, 2**15)])
def test_an_end_without_the_next_epoch_ends_the_producer(answer: EndTxnResponse) -> None:
    core = core_in(Phase.COMMITTING)
    with pytest.raises(FatalProducerError, match="for the next transaction"):
        core.on_ended(answer)
    assert core.phase is Phase.FATAL


@pytest.mark.parametrize("commits", [True, False])
def test_a_coordinator_that_never_heard_of_a_transaction_is_not_told_of_its_end(commits: bool) -> None:
    core = core_in(Phase.READY)
    core.begin()
    (core.begin_commit if commits else core.begin_abort)()
    assert not core.on_flushed()
    core.on_ended(None)
    assert core.identity == ME and core.phase is Phase.READY


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "call", "says"),
    [
        (Phase.OPEN, "begin", "open already"),
        (Phase.FLUSHING, "begin", "call commit_transaction"),
        (Phase.COMMITTING, "begin", "call commit_transaction"),
        (Phase.NEW, "begin_commit", "no transaction to commit"),
        (Phase.READY, "begin_commit", "no transaction to commit"),
        (Phase.ABORTING, "begin_commit", "no transaction to commit"),
        (Phase.NEW, "begin_abort", "no transaction to abort"),
        (Phase.READY, "begin_abort", "no transaction to abort"),
        (Phase.COMMITTING, "begin_abort", "call commit_transaction"),
        (Phase.NEW, "must_take_records", "no transaction is open: write"),
        (Phase.READY, "must_take_records", "no transaction is open: write"),
        (Phase.FLUSHING, "must_take_records", "is being ended"),
        (Phase.COMMITTING, "must_take_records", "is being ended"),
        (Phase.ABORTING, "must_take_records", "is being ended"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_and_changes_nothing(phase: Phase, call: str, says: str) -> None:
    core = core_in(phase)
    with pytest.raises(TransactionStateError, match=says):
        getattr(core, call)()
    assert core.phase is phase


def test_a_refusal_says_how_the_last_transaction_ended() -> None:
    core = core_in(Phase.COMMITTING)
    core.on_ended(EndTxnResponse(7, 4))
    with pytest.raises(TransactionStateError, match="the last one was committed"):
        core.begin_commit()


def test_a_commit_that_nobody_heard_of_is_told_once_before_anything_else() -> None:
    core = core_in(Phase.COMMITTING)
    core.on_ended(EndTxnResponse(7, 4), is_awaited=False)
    with pytest.raises(TransactionStateError, match="call commit_transaction"):
        core.begin()
    with pytest.raises(TransactionStateError, match="is being committed, or is"):
        core.begin_abort()
    assert core.begin_commit() is False
    core.begin()


# -- a part that fails -------------------------------------------------------------------------------------------------


def test_after_a_failed_batch_a_transaction_can_only_be_aborted() -> None:
    core = core_in(Phase.OPEN)
    core.on_failed(MessageTooLargeError("too large"))
    core.on_failed(NetworkError("later"))
    for call in (core.must_take_records, core.begin_commit):
        with pytest.raises(TransactionAbortedError, match="can only be aborted: too large") as caught:
            call()
        assert isinstance(caught.value.__cause__, MessageTooLargeError)
    assert isinstance(core.doom, TransactionAbortedError)
    core.begin_abort()
    assert core.on_flushed()
    assert core.question(TIMEOUT_MS) == EndTxnRequest("tx", 7, 3, is_committed=False, bumps_epoch=True)
    core.on_ended(EndTxnResponse(7, 4))
    assert core.doom is None
    core.begin()
    core.must_take_records()


def forgotten() -> InvalidProducerIdMappingError:
    return InvalidProducerIdMappingError("transactional id 'tx' does not belong to producer 7")


def test_a_producer_that_was_forgotten_aborts_by_a_new_id_and_goes_on() -> None:
    core = core_in(Phase.OPEN)
    core.on_failed(forgotten())
    with pytest.raises(TransactionAbortedError):
        core.begin_commit()
    core.begin_abort()
    assert core.on_flushed()
    assert core.question(TIMEOUT_MS) == InitProducerIdRequest("tx", TIMEOUT_MS, 7, 3), "it names the id that it had"
    core.on_not_ended(NetworkError("no answer"))
    assert core.question(TIMEOUT_MS) == InitProducerIdRequest("tx", TIMEOUT_MS, 7, 3)
    core.on_ended(InitProducerIdResponse(9, 0))
    core.begin()
    core.on_sent()
    core.begin_commit()
    assert core.on_flushed()
    assert core.question(TIMEOUT_MS) == EndTxnRequest("tx", 9, 0, is_committed=True, bumps_epoch=True)


def test_a_newer_instance_fences_a_producer_that_was_forgotten() -> None:
    core = core_in(Phase.OPEN)
    core.on_failed(forgotten())
    core.begin_abort()
    core.on_flushed()
    with pytest.raises(ProducerFencedError):
        core.on_not_ended(ProducerFencedError("another has begun"))
    assert core.phase is Phase.FATAL


def test_an_abort_finds_out_that_the_producer_was_forgotten() -> None:
    core = core_in(Phase.ABORTING)
    core.on_not_ended(forgotten())
    assert core.question(TIMEOUT_MS) == InitProducerIdRequest("tx", TIMEOUT_MS, 7, 3)
    with pytest.raises(FatalProducerError):
        core.on_not_ended(forgotten())


def test_a_commit_of_a_forgotten_producer_is_not_told_as_aborted_if_an_attempt_may_have_done_it() -> None:
    core = core_in(Phase.COMMITTING)
    with pytest.raises(TransactionAbortedError):
        core.on_not_ended(forgotten())
    assert core.phase is Phase.OPEN
    core = core_in(Phase.COMMITTING)
    core.on_not_ended(NetworkError("no answer"))
    with pytest.raises(FatalProducerError, match="may have committed"):
        core.on_not_ended(forgotten())


def test_a_batch_that_fails_in_the_flush_of_a_commit_ends_the_commit() -> None:
    core = core_in(Phase.FLUSHING)
    core.on_failed(TimedOutError("not acked"))
    with pytest.raises(TransactionAbortedError, match="not acked"):
        core.on_flushed()
    assert core.phase is Phase.OPEN
    core.begin_abort()


def test_an_abort_takes_over_a_commit_that_still_flushes() -> None:
    core = core_in(Phase.FLUSHING)
    core.begin_abort()
    request = end_of(core)
    assert request is not None and not request.is_committed


def test_a_batch_of_a_fenced_producer_ends_it() -> None:
    core = core_in(Phase.OPEN)
    core.on_failed(ProducerFencedError("a newer one"))
    for call in (core.begin, core.must_take_records, core.begin_commit, core.begin_abort):
        with pytest.raises(ProducerFencedError, match="a newer one"):
            call()


# -- answers to an end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ConcurrentTransactionsError(),
        CoordinatorLoadInProgressError(),
        NotCoordinatorError(),
        NetworkError(),
        UnknownServerError(),
        TimedOutError("late"),
        BootstrapError("nobody"),
    ],
)
@pytest.mark.parametrize("phase", [Phase.COMMITTING, Phase.ABORTING])
def test_an_end_whose_outcome_is_not_known_is_asked_for_again(phase: Phase, error: PenstockError) -> None:
    core = core_in(phase)
    core.on_flushed()
    core.on_not_ended(error)
    assert core.phase is phase
    again = end_of(core)
    assert again is not None and again.is_committed is (phase is Phase.COMMITTING)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ProducerFencedError("newer"), ProducerFencedError),
        (InvalidProducerEpochError("epoch 4 counts"), ProducerFencedError),
        (InvalidRequestError("bad"), FatalProducerError),
        (UnsupportedVersionError("old"), FatalProducerError),
    ],
)
@pytest.mark.parametrize("phase", [Phase.COMMITTING, Phase.ABORTING])
def test_a_final_error_of_an_end_ends_the_producer(
    phase: Phase, error: PenstockError, expected: type[PenstockError]
) -> None:
    core = core_in(phase)
    core.on_flushed()
    with pytest.raises(expected, match=str(error)) as caught:
        core.on_not_ended(error)
    assert isinstance(caught.value, FatalProducerError) and core.phase is Phase.FATAL
    with pytest.raises(expected):
        core.begin()


def test_an_abort_that_the_coordinator_refuses_ends_the_producer() -> None:
    core = core_in(Phase.ABORTING)
    with pytest.raises(FatalProducerError, match="INVALID_TXN_STATE"):
        core.on_not_ended(InvalidTxnStateError())


def test_a_final_error_says_that_an_attempt_before_it_may_have_committed() -> None:
    core = core_in(Phase.COMMITTING)
    core.on_not_ended(NetworkError("lost"))
    with pytest.raises(ProducerFencedError, match="may have committed the transaction") as caught:
        core.on_not_ended(ProducerFencedError("newer"))
    assert not caught.value.nothing_written


@pytest.mark.parametrize("error", [TransactionAbortableError("a partition failed"), InvalidTxnStateError("timed out")])
def test_a_commit_that_the_coordinator_refuses_can_be_aborted(error: PenstockError) -> None:
    core = core_in(Phase.COMMITTING)
    with pytest.raises(TransactionAbortedError, match=str(error)):
        core.on_not_ended(error)
    core.begin_abort()
    request = end_of(core)
    assert request is not None and not request.is_committed


# -- the first use -----------------------------------------------------------------------------------------------------


def test_a_coordinator_that_is_late_leaves_the_first_use_to_the_next_call() -> None:
    core = core_in(Phase.NEW)
    assert isinstance(core.on_not_initialized(NotCoordinatorError()), TimedOutError)
    core.on_initialized(ME)
    core.begin()


def test_a_time_out_that_the_brokers_do_not_take_ends_the_producer() -> None:
    core = core_in(Phase.NEW)
    error = core.on_not_initialized(InvalidTransactionTimeoutError("above transaction.max.timeout.ms=900000"))
    assert isinstance(error, InvalidTransactionTimeoutError) and "900000" in str(error)
    with pytest.raises(InvalidTransactionTimeoutError):
        core.begin()


def test_only_the_changes_of_the_table_are_made() -> None:
    for phase in Phase:
        for to in Phase:
            core = core_in(phase)
            if to not in MOVES[phase]:
                with pytest.raises(InvariantViolation):
                    core._move(to)


# -- any order ---------------------------------------------------------------------------------------------------------


class Coordinator:
    """Ends transactions as transaction version 2 does; answers may be lost."""

    def __init__(self) -> None:
        self.epoch, self.ends = ME.epoch, dict[int, bool]()

    def end(self, request: EndTxnRequest) -> EndTxnResponse:
        assert self.ends.setdefault(request.producer_epoch, request.is_committed) is request.is_committed
        self.epoch = max(self.epoch, request.producer_epoch + 1)
        return EndTxnResponse(7, request.producer_epoch + 1)


@pytest.mark.parametrize("seed", range(50))
def test_what_a_user_is_told_is_what_the_coordinator_has_done(seed: int) -> None:
    draw, core, coordinator = random.Random(seed), core_in(Phase.READY), Coordinator()
    outcomes: list[tuple[int, bool]] = []

    def end(begin: Callable[[], object]) -> None:
        epoch = core.identity.epoch if core.identity is not None else -1
        begin()
        request = end_of(core)
        while request is not None:
            answer = coordinator.end(request) if draw.random() < 0.6 else None
            if answer is not None and draw.random() < 0.5:
                core.on_ended(answer)
                outcomes.append((epoch, request.is_committed))
                return
            core.on_not_ended(NetworkError("lost"))
            request = end_of(core)
        core.on_ended(None)

    for _ in range(40):
        try:
            call = draw.choice(("begin", "sent", "failed", "commit", "abort"))
            if call == "begin":
                core.begin()
            elif call == "sent":
                core.must_take_records()
                core.on_sent()
            elif call == "failed":
                core.on_failed(MessageTooLargeError())
            else:
                end(core.begin_commit if call == "commit" else core.begin_abort)
        except (TransactionStateError, TransactionAbortedError):
            pass
    assert coordinator.ends == dict(outcomes)
