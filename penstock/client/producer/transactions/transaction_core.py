"""The state of a producer's transactions: what may be called now, and what each answer of the coordinator means.

    NEW ──initialized──► READY ──begin──► OPEN ──commit──► FLUSHING ──all acked──► COMMITTING ──answered──► READY
                           ▲                │                 │
                           └──answered── ABORTING ◄──abort────┘                    any ──fatal error──► FATAL

A batch that fails makes the transaction one that can only be aborted (`failure`). The coordinator is told of an end
where it may know of the transaction: once a batch was sent, or offsets. With transaction version 2 (KIP-890) its answer
has the producer's id and epoch for the next transaction, in which all sequences begin at 0 again.

Errors by blame. *Retriable* ones stay within: the question is asked again. After an *abortable* one
(TransactionAbortedError) the user aborts and begins again. A *fatal* one (FatalProducerError) ends the producer. While
it is not known how a transaction ended, the same end is asked for again: it is never told as the other one.

A producer that was quiet for `transactional.id.expiration.ms` is *forgotten*. Its next transaction can only be aborted,
and the abort asks for a new id, naming the old one (KIP-360): a newer instance fences it by that.

Pure. The loop changes phases; other threads read them, and may note a failure. Not here: calls, flushes, and callers
that wait (transactions.py).
"""

from __future__ import annotations

from enum import Enum, auto

from penstock.base_error import without_frames
from penstock.errors import (
    ApiError,
    BootstrapError,
    FatalProducerError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    InvariantViolation,
    PenstockError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionStateError,
    UnknownServerError,
)
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.producers import EndTxnRequest, EndTxnResponse
from penstock.types import PRODUCER_EPOCH_MAX, ProducerIdAndEpoch

NOT_COMMITTED = (TransactionAbortableError, InvalidTxnStateError)
"""The coordinator's answers to a commit of what is aborted already, by its time-out, or has to be. The producer aborts
it, too, and goes on (KIP-588)."""
OUTSIDE = "no transaction is open: write `with producer.transaction() as t:`, or call begin_transaction() first"


class Phase(Enum):
    """The phase of the producer's transactions."""

    NEW = auto()
    READY = auto()
    OPEN = auto()
    FLUSHING = auto()
    COMMITTING = auto()
    ABORTING = auto()
    FATAL = auto()


MOVES = {
    Phase.NEW: {Phase.READY, Phase.FATAL},
    Phase.READY: {Phase.OPEN, Phase.FATAL},
    Phase.OPEN: {Phase.FLUSHING, Phase.ABORTING, Phase.FATAL},
    Phase.FLUSHING: {Phase.COMMITTING, Phase.OPEN, Phase.ABORTING, Phase.FATAL},
    Phase.COMMITTING: {Phase.READY, Phase.OPEN, Phase.FATAL},
    Phase.ABORTING: {Phase.READY, Phase.FATAL},
    Phase.FATAL: set[Phase](),
}
"""All changes there are. From FLUSHING or COMMITTING back to OPEN: it can only be aborted."""


class TransactionCore:
    """The transactions of one producer, one after the other."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.NEW
        self.identity: ProducerIdAndEpoch | None = None  # of the open transaction, or of the next one
        self.failure: PenstockError | None = None  # why the open transaction can only be aborted
        self.doom: PenstockError | None = None
        """The error of every batch that is not acked: none of them counts any more."""
        self.committed = self.aborted = 0
        self.unreported_commit = False  # the last transaction was committed when nobody waited any more
        self._may_be_known = False  # the coordinator may know of the open transaction
        self._is_forgotten = False  # the coordinator does not know the id of this producer any more
        self._unknown_ends = 0  # attempts to end it whose outcome is not known
        self._last_end = ""

    def _move(self, to: Phase) -> None:
        if to not in MOVES[self.phase]:
            raise InvariantViolation(f"{self!r} cannot become {to.name}")
        self.phase = to

    def _must_live(self) -> None:
        if self.phase is Phase.FATAL and self.doom is not None:
            raise self.doom.with_traceback(None)

    # -- the first use -------------------------------------------------------------------------------------------------

    def on_initialized(self, identity: ProducerIdAndEpoch) -> None:
        """The coordinator has given the producer its id and epoch; older instances are fenced."""
        self.identity = identity
        self._move(Phase.READY)

    def on_not_initialized(self, error: PenstockError) -> PenstockError:
        """The error for the user; one that passes leaves it to the next call."""
        if is_passing(error):
            return TimedOutError(
                f"transactional id {self.transactional_id!r}: no coordinator answered in time: {error}"
            )
        return self._end_for_good(error)

    # -- within a transaction ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A transaction is open from now on."""
        self._must_live()
        if self.unreported_commit or self.phase in (Phase.FLUSHING, Phase.COMMITTING):
            raise TransactionStateError(
                "nobody was told yet how the last transaction ended: call commit_transaction() until it tells"
            )
        if self.phase is Phase.OPEN:
            raise TransactionStateError("a transaction is open already: commit or abort it first; they do not nest")
        self.failure = self.doom = None
        self._may_be_known, self._unknown_ends = False, 0
        self._move(Phase.OPEN)

    def must_take_records(self) -> None:
        """Raises where a record, or offsets, would be part of no transaction that can be committed. In any thread."""
        phase, failure = self.phase, self.failure
        if phase is Phase.OPEN and failure is None:
            return
        self._must_live()
        if phase is Phase.OPEN and failure is not None:
            raise self._aborted(failure)
        if phase in (Phase.FLUSHING, Phase.COMMITTING, Phase.ABORTING):
            raise TransactionStateError("the transaction is being ended, by another thread or an earlier call")
        raise TransactionStateError(OUTSIDE)

    def on_sent(self) -> str:
        """A batch, or offsets, are on their way: the coordinator of this id may hear of the transaction."""
        self._may_be_known = True
        return self.transactional_id

    def on_failed(self, error: PenstockError) -> None:
        """A part of the transaction has failed: it can only be aborted. BEFORE the part itself is told. In any
        thread."""
        if self.phase not in (Phase.OPEN, Phase.FLUSHING) or self.failure is not None:
            return
        if isinstance(error, InvalidProducerIdMappingError):
            self._is_forgotten = True
        elif isinstance(error, FatalProducerError):
            self._end_for_good(error)
            return
        self.failure = without_frames(error)
        self.doom = self._aborted(self.failure)

    def _aborted(self, failure: PenstockError) -> TransactionAbortedError:
        error = TransactionAbortedError(f"the transaction can only be aborted: {failure}")
        error.__cause__ = failure
        return error

    # -- its end -------------------------------------------------------------------------------------------------------

    def begin_commit(self) -> bool:
        """Takes nothing more from now on; a commit that was begun goes on. False: it is committed already, and the
        caller is told so now."""
        self._must_live()
        if self.unreported_commit:
            self.unreported_commit = False
            return False
        if self.phase is Phase.OPEN:
            if self.failure is not None:
                raise self._aborted(self.failure)
            self._move(Phase.FLUSHING)
        elif self.phase not in (Phase.FLUSHING, Phase.COMMITTING):
            raise TransactionStateError(self._nothing_to("commit"))
        return True

    def begin_abort(self) -> None:
        """Takes nothing more from now on, and sends nothing more; an abort that was begun goes on."""
        self._must_live()
        if self.unreported_commit or self.phase is Phase.COMMITTING:
            raise TransactionStateError(
                "the transaction is being committed, or is: call commit_transaction() until it tells"
            )
        if self.phase in (Phase.OPEN, Phase.FLUSHING):
            self.doom = self.doom or TransactionAbortedError("the transaction was aborted before the record was acked")
            self._move(Phase.ABORTING)
        elif self.phase is not Phase.ABORTING:
            raise TransactionStateError(self._nothing_to("abort"))

    def _nothing_to(self, what: str) -> str:
        last = f"; the last one was {self._last_end}" if self._last_end else ""
        return f"there is no transaction to {what}{last}"

    def on_flushed(self) -> bool:
        """No batch waits any more. False where there is nothing to tell the coordinator. Raises the error of a commit
        of which a part has failed."""
        self._must_live()
        if self.phase is Phase.FLUSHING:
            if self.failure is not None:
                self._move(Phase.OPEN)
                raise self._aborted(self.failure)
            self._move(Phase.COMMITTING)
        return (self._may_be_known or self._is_forgotten) and self.identity is not None

    def question(self, timeout_ms: int) -> EndTxnRequest | InitProducerIdRequest:
        """The question to the coordinator by which the transaction ends."""
        identity = self.identity or ProducerIdAndEpoch(-1, -1)
        if self._is_forgotten:
            return InitProducerIdRequest(self.transactional_id, timeout_ms, *identity)
        is_committed = self.phase is Phase.COMMITTING
        return EndTxnRequest(self.transactional_id, *identity, is_committed, bumps_epoch=True)

    def on_ended(self, answer: EndTxnResponse | InitProducerIdResponse | None, *, is_awaited: bool = True) -> bool:
        """The transaction is ended, with True if it is committed; None: the coordinator never knew of it. `is_awaited`:
        a caller waits for this."""
        if answer is not None:
            if answer.producer_id < 0 or not 0 <= answer.producer_epoch <= PRODUCER_EPOCH_MAX:
                identity = f"producer id {answer.producer_id} in epoch {answer.producer_epoch}"
                raise self._end_for_good(
                    UnknownServerError(f"the coordinator gave {identity} for the next transaction")
                )
            self.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        is_committed = self.phase is Phase.COMMITTING
        self._move(Phase.READY)
        self.committed += is_committed
        self.aborted += not is_committed
        self.unreported_commit = is_committed and not is_awaited
        self._last_end = "committed" if is_committed else "aborted"
        self.failure = self.doom = None
        self._is_forgotten = False
        return is_committed

    def on_not_ended(self, error: PenstockError) -> None:
        """Returns where the same end is to be asked for again; raises an error that is final."""
        if is_passing(error) or not error.nothing_written:
            self._unknown_ends += not error.nothing_written
            return
        is_of_forgotten = isinstance(error, InvalidProducerIdMappingError) and not self._is_forgotten
        if is_of_forgotten and self.phase is Phase.ABORTING:
            self._is_forgotten = True
            return
        is_known = not is_of_forgotten or not self._unknown_ends
        if (isinstance(error, NOT_COMMITTED) or is_of_forgotten) and self.phase is Phase.COMMITTING and is_known:
            self._is_forgotten = is_of_forgotten
            self.failure = without_frames(error)
            self.doom = self._aborted(self.failure)
            self._move(Phase.OPEN)
            raise self.doom
        raise self._end_for_good(error)

    def counts(self) -> dict[str, int]:
        """The counts for the producer's statistics, by name."""
        return {"transactions_committed": self.committed, "transactions_aborted": self.aborted}

    def _end_for_good(self, error: PenstockError) -> PenstockError:
        """Nothing goes on after this error: all calls raise it."""
        unknown = ""
        if self.phase is Phase.COMMITTING and self._unknown_ends:
            unknown = "; an attempt whose outcome is not known may have committed the transaction"
        if isinstance(error, InvalidProducerEpochError):
            final: PenstockError = ProducerFencedError(f"{ProducerFencedError()} ({error}){unknown}")
        elif isinstance(error, FatalProducerError):
            final = type(error)(f"{error}{unknown}")
        else:
            name = f"{error.kafka_name}: " if isinstance(error, ApiError) else ""
            final = FatalProducerError(f"transactional id {self.transactional_id!r}: {name}{error}{unknown}")
            final.__cause__ = without_frames(error)
        final.nothing_written = not unknown and error.nothing_written
        self.doom = final
        self._move(Phase.FATAL)
        return final

    def __repr__(self) -> str:
        failed = ", failed" if self.failure is not None else ""
        return f"TransactionCore({self.transactional_id!r}, {self.phase.name}, {self.identity}{failed})"


def is_passing(error: PenstockError) -> bool:
    """True if asking again may help."""
    return isinstance(error, TimedOutError | BootstrapError) or (isinstance(error, ApiError) and error.retriable)
