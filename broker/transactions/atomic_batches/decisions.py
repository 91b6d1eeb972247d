"""Begin, commit and abort of versions: one record decides over the transactions of all writers.

    begin     the version opens with its first writer; what is open of an older one, or of another run, is aborted
    commit    of those that are named; all others are aborted. Again: the same answer
    abort     of all, or of the writers that are named: a task that failed ends what it wrote, and no other's

The record of the application is written first, and decides alone: the transactions of its writers follow in the same
turn. A failover may leave a beginning of the turn; then they follow after the load (`settle`). While a version is open
a writer may be out of time: it is aborted, and the version cannot be committed with it. Pure. Not here: what is refused
(batch_checks.py), and how one transaction ends (ending.py).
"""

from __future__ import annotations

from typing import Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Ticket, Turn
from broker.coordination.watched_time import WatchedTime
from broker.transactions.atomic_batches import batch_checks as checks
from broker.transactions.atomic_batches.application import NO_VERSION, BatchApplication, application_bytes
from broker.transactions.atomic_batches.batch_records import BatchApplicationKey
from broker.transactions.atomic_batches.held_applications import HeldApplications, Writers
from broker.transactions.ending import TransactionEnding
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import HeldTransactions, TransactionCounters
from broker.transactions.transaction_memory import id_bytes
from broker.transactions.transaction_metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    VERSION_2,
    TransactionMetadata,
)
from broker.transactions.transaction_records import TransactionLogKey
from penstock.messages.transactions.atomic_batches import (
    ONLY_WRITERS,
    OPEN_VERSION,
    AbortAtomicBatchRequest,
    AbortAtomicBatchResponse,
    BeginAtomicBatchRequest,
    BeginAtomicBatchResponse,
    CommitAtomicBatchRequest,
    CommitAtomicBatchResponse,
    writer_id,
)
from penstock.messages.transactions.listing import TransactionState
from penstock.messages.transactions.transaction_apis import WRITERS_MAX
from penstock.types import NO_TIMESTAMP

ONE_OFF_MS: Final = 3_600_000
"""The time after its last use at which an application that is for one version is forgotten."""
LOOKED_AT: Final = 2_000
"""Applications in one turn."""
_EXPIRY: Final = ("batch expiry",)


class AtomicBatchDecisions:
    """Begins, commits and aborts the versions of applications."""

    def __init__(
        self,
        config: TransactionConfig,
        held: HeldTransactions,
        applications: HeldApplications,
        ending: TransactionEnding,
        timers: Timers[Turn],
        watched: WatchedTime,
        memory: ShardMemory,
        counters: TransactionCounters,
    ) -> None:
        self._config, self._held, self._applications = config, held, applications
        self._ending, self._timers, self._memory, self._counters = ending, timers, memory, counters
        self._watched = watched
        self._left: list[str] = []

    # -- requests ------------------------------------------------------------------------------------------------------

    def begin(self, turn: Turn, ticket: Ticket, request: BeginAtomicBatchRequest, fresh: int | None) -> None:
        """`fresh` is a producer id that nobody has, if one was handed in."""
        name, version = request.application, request.version
        checks.check_names(name, version, request.run)
        checks.check_timeout(request.timeout_ms, self._config)
        found = self._applications.by_name.get(name)
        checks.check_run(name, found, request.run)
        writers = self._applications.writers(name)
        idle = self._idle_of(writers)
        if found is not None:
            checks.check_version(found, request)
            if version == found.last_version:
                self._take_over(turn, name, found, request.run)
                turn.answer(ticket, BeginAtomicBatchResponse(True))
                return
        if idle is None and len(writers) >= WRITERS_MAX:
            raise checks.no_room(name, writers)
        self._memory.must_have_room(
            (0 if found is not None else application_bytes(BatchApplication(run=request.run), name))
            + (0 if idle is not None else id_bytes(_new_writer(name, NO_PRODUCER_ID)))
        )
        if idle is None and fresh is None:
            turn.answer(ticket, NEEDS_PRODUCER_ID)
            return
        application = self._take_over(turn, name, found, request.run)
        if application.open_version != version:
            application = self._give_up(turn, name, application)
            opened = application.opened(version, is_one_off=request.is_one_off, wall_ms=turn.wall_ms)
            turn.write(BatchApplicationKey(application=name), opened)
        writer = self._begun(turn, name, idle, request.timeout_ms, fresh)
        turn.answer(
            ticket,
            BeginAtomicBatchResponse(False, writer.transactional_id, writer.producer_id, writer.producer_epoch),
        )

    def commit(self, turn: Turn, ticket: Ticket, request: CommitAtomicBatchRequest) -> None:
        name, version = request.application, request.version
        checks.check_names(name, version, request.run)
        checks.check_sums(request)
        found = self._applications.by_name.get(name)
        checks.check_run(name, found, request.run)
        if found is not None:
            checks.check_version(found, request)
            if version == found.last_version:
                self._take_over(turn, name, found, request.run)
                turn.answer(ticket, CommitAtomicBatchResponse(True, found.last_records, found.last_checksum))
                return
        else:
            self._memory.must_have_room(application_bytes(BatchApplication(run=request.run), name))
        checks.check_accepted(found, self._applications.writers(name), self._held, request)
        application = self._take_over(turn, name, found, request.run)
        if application.open_version != version:
            application = self._give_up(turn, name, application)
        accepted = tuple(writer.producer_id for writer in request.writers)
        sums = request.records, request.checksum
        self._decide(turn, name, application.committed(version, *sums, accepted, turn.wall_ms))
        self._counters.batches_committed += 1
        turn.answer(ticket, CommitAtomicBatchResponse(False, *sums))

    def abort(self, turn: Turn, ticket: Ticket, request: AbortAtomicBatchRequest) -> None:
        name, version = request.application, request.version
        checks.check_abort(request)
        found = self._applications.by_name.get(name)
        checks.check_run(name, found, request.run)
        if found is None:
            turn.answer(ticket, AbortAtomicBatchResponse())
            return
        is_meant = found.is_open and version in (found.open_version, OPEN_VERSION)
        if version == ONLY_WRITERS:
            self._abort_writers(turn, name, request)
        elif is_meant and not checks.is_other_run(found, request.run):
            self._give_up(turn, name, found)
        is_committed = version == found.last_version != NO_VERSION
        turn.answer(ticket, AbortAtomicBatchResponse(is_committed, found.last_version + 1))

    def _abort_writers(self, turn: Turn, name: str, request: AbortAtomicBatchRequest) -> None:
        """Aborts those that are still open. The version stays open, and cannot be committed with them."""
        writers = self._applications.writers(name)
        for writer in dict.fromkeys(request.writers):
            if checks.is_open_writer(name, writers, self._held, writer):
                transaction = self._held.by_id[writer_id(name, writer.producer_id)]
                self._ending.decide(turn, transaction, is_committed=False)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _take_over(self, turn: Turn, name: str, found: BatchApplication | None, run: str) -> BatchApplication:
        """The application as this run has it: another one's is fenced, and what that has open is aborted."""
        if found is None:
            return BatchApplication(run=run)
        if not checks.is_other_run(found, run):
            self.settle(turn, name)
            return found
        application = found.of_run(run).closed(() if found.is_open else found.accepted, turn.wall_ms)
        self._decide(turn, name, application)
        self._counters.runs_fenced += bool(found.run)
        self._counters.batches_aborted += found.is_open
        return application

    def _give_up(self, turn: Turn, name: str, application: BatchApplication) -> BatchApplication:
        """Abort the version that is open, if one is."""
        if not application.is_open:
            return application
        aborted = application.closed((), turn.wall_ms)
        self._decide(turn, name, aborted)
        self._counters.batches_aborted += 1
        return aborted

    def _decide(self, turn: Turn, name: str, application: BatchApplication) -> None:
        """The record FIRST: it alone decides."""
        turn.write(BatchApplicationKey(application=name), application)
        self.settle(turn, name)

    def settle(self, turn: Turn, name: str) -> None:
        """The last decision is taken by all writers that are open; nothing while a version is."""
        application, writers = self._applications.by_name.get(name), self._applications.writers(name)
        if not writers.open or (application is not None and application.is_open):
            return
        accepted = frozenset(application.accepted) if application is not None else frozenset[int]()
        for transactional_id in tuple(writers.open):
            transaction = self._held.by_id[transactional_id]
            self._ending.decide(turn, transaction, is_committed=transaction.producer_id in accepted)

    # -- writers -------------------------------------------------------------------------------------------------------

    def _idle_of(self, writers: Writers) -> TransactionMetadata | None:
        """The idle writer that ended last and whose epochs are not used up; the others may expire."""
        for transactional_id in reversed(writers.idle):
            found = self._held.by_id[transactional_id]
            if not found.is_exhausted:
                return found
        return None

    def _begun(
        self, turn: Turn, name: str, idle: TransactionMetadata | None, timeout_ms: int, fresh: int | None
    ) -> TransactionMetadata:
        before = _new_writer(name, NO_PRODUCER_ID if fresh is None else fresh) if idle is None else idle
        begun = before.moved(
            TransactionState.EMPTY,
            turn.wall_ms,
            timeout_ms=timeout_ms,
            start_ms=turn.wall_ms,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            version=VERSION_2,
        )
        turn.write(TransactionLogKey(transactional_id=begun.transactional_id), begun)
        self._ending.opened(turn, begun)
        return begun

    # -- after a load, and expiry --------------------------------------------------------------------------------------

    def loaded(self, turn: Turn) -> None:
        """Decisions of which the log has only a beginning are taken. BEFORE any time-out is set."""
        for name in self._applications.undecided():
            self.settle(turn, name)

    def expire(self, turn: Turn) -> None:
        """Looks at the next part of the applications; at all of them again after the interval."""
        self._watched.look(turn.now_ms, turn.wall_ms)
        if not self._left:
            self._left = list(self._applications.by_name)
        part, self._left = self._left[:LOOKED_AT], self._left[LOOKED_AT:]
        for name in part:
            if self._is_expired(name):
                for transactional_id in tuple(self._applications.writers(name).idle):
                    turn.write(TransactionLogKey(transactional_id=transactional_id), None)
                turn.write(BatchApplicationKey(application=name), None)
        wait_ms = 0 if self._left else self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set(_EXPIRY, turn.now_ms + wait_ms, self.expire)

    def _is_expired(self, name: str) -> bool:
        """True if the application is out of use. Its age is the time that coordinators have watched, not the
        calendar's: a name that is forgotten early would let a version be committed again. An application with an open
        version and no open writer is out of use, too: the time of its writers was up."""
        application = self._applications.by_name.get(name)
        if application is None or not self._applications.writers(name).is_at_rest:
            return False
        kept_ms = ONE_OFF_MS if application.is_one_off else 2 * self._config.transactional_id_expiration_ms
        return self._watched.age_ms(application.update_ms) >= kept_ms

    def __repr__(self) -> str:
        return f"AtomicBatchDecisions({self._applications!r})"


def _new_writer(name: str, producer_id: int) -> TransactionMetadata:
    return TransactionMetadata(writer_id(name, producer_id), producer_id, 0, 0, TransactionState.EMPTY, NO_TIMESTAMP)
