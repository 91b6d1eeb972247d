"""The end of a transaction: decided once, told to its partitions, and then complete.

    EndTxn of its producer      in both versions; one that is repeated gets the same answer again
    its time-out                an abort with an epoch above the producer's, which may abort too, and go on
    a newer producer            the same, and the producer is fenced by it
    the markers are written     Complete*; with version 2, and where the epochs are used up, a new producer id

A decision is never changed: a request for the other end gets INVALID_TXN_STATE, a time-out finds nothing open. With
version 2 each end gives the producer its next epoch, which its markers have, too. The markers' ticket (marker_port.py)
is answered with the decision, so they leave after its commit. Pure.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from broker.coordination.timers import Timers
from broker.coordination.turn import Ticket, Turn
from broker.coordination.watched_time import MARK_MS, WatchedTime
from broker.transactions.end_checks import check_end
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID
from broker.transactions.marker_port import (
    MarkerPort,
    MarkersTicket,
    MarkersWritten,
    SendMarkersAgain,
    TransactionEnd,
)
from broker.transactions.transaction_figures import HeldTransactions, TransactionCounters
from broker.transactions.transaction_metadata import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    VERSION_1,
    VERSION_2,
    TransactionMetadata,
)
from broker.transactions.transaction_records import TransactionLogKey
from broker.transactions.waiting_adds import WaitingAdds
from penstock.messages.transactions.listing import TransactionState
from penstock.messages.transactions.producers import EndTxnRequest, EndTxnResponse

_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


_OPEN = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})
"""A writer of an atomic batch has its time-out before its first batch, too; others have none then."""


UNWATCHED_MS: Final = 2 * MARK_MS
"""The most of a transaction's time that is believed although no coordinator has watched it: the end of a lead after its
last record, and a failover."""


class TransactionEnding:
    """Ends transactions: one decision each, then its markers, then the completed state."""

    def __init__(
        self,
        held: HeldTransactions,
        timers: Timers[Turn],
        watched: WatchedTime,
        markers: MarkerPort,
        waiting: WaitingAdds,
        counters: TransactionCounters,
    ) -> None:
        self._held, self._timers, self._markers, self._counters = held, timers, markers, counters
        self._watched, self._waiting = watched, waiting

    # -- of a producer -------------------------------------------------------------------------------------------------

    def end(self, turn: Turn, ticket: Ticket, request: EndTxnRequest, fresh: int | None) -> None:
        """`fresh` is a producer id that nobody has, if one was handed in."""
        transaction = check_end(self._held.by_id.get(request.transactional_id), request)
        if transaction is None:
            ended = self._held.by_id[request.transactional_id]
            turn.answer(ticket, _next_producer(ended, request.bumps_epoch))
            return
        if not request.bumps_epoch:
            epoch = transaction.producer_epoch
            prepared = self._prepare(turn, transaction, request.is_committed, epoch, version=VERSION_1)
        elif transaction.is_exhausted and fresh is None:
            turn.answer(ticket, NEEDS_PRODUCER_ID)
            return
        else:
            prepared = self._prepare(
                turn,
                transaction,
                request.is_committed,
                transaction.producer_epoch + 1,
                last_producer_epoch=transaction.producer_epoch,
                next_producer_id=fresh if transaction.is_exhausted and fresh is not None else NO_PRODUCER_ID,
                version=VERSION_2,
            )
        turn.answer(ticket, _next_producer(prepared, request.bumps_epoch))

    # -- of the coordinator itself -------------------------------------------------------------------------------------

    def opened(self, turn: Turn, transaction: TransactionMetadata) -> None:
        """The transaction is open from now on, or was loaded so: its time runs from its begin."""
        left_ms = max(transaction.timeout_ms - self._open_ms(turn, transaction), 0)
        name = transaction.transactional_id
        self._timers.set(name, turn.now_ms + left_ms, partial(self._time_up, name))

    def _open_ms(self, turn: Turn, transaction: TransactionMetadata) -> int:
        """The time for which it has been open: by the calendar, unless that says far more than coordinators have
        watched. So a failover prolongs nothing, and a calendar days ahead aborts nothing."""
        self._watched.look(turn.now_ms, turn.wall_ms)
        watched_ms, by_calendar_ms = self._watched.age_ms(transaction.start_ms), turn.wall_ms - transaction.start_ms
        return by_calendar_ms if 0 <= by_calendar_ms - watched_ms <= UNWATCHED_MS else watched_ms

    def _time_up(self, transactional_id: str, turn: Turn) -> None:
        transaction = self._held.by_id.get(transactional_id)
        if transaction is not None and transaction.state in _OPEN:
            self.abort(turn, transaction, goes_on=True)
            self._counters.timed_out += 1

    def abort(
        self, turn: Turn, transaction: TransactionMetadata, *, goes_on: bool, next_producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Aborts an open transaction under an epoch above its producer's. If the producer `goes_on`, it may have that
        epoch (KIP-588), or the next id: its next InitProducerId, under its old epoch, counts as a repetition of one
        that was answered with the new one. No producer gets the last epoch."""
        epoch = transaction.producer_epoch + 1
        may_go_on = goes_on and (epoch < EPOCH_MAX or next_producer_id != NO_PRODUCER_ID)
        self._prepare(
            turn,
            transaction,
            False,
            epoch,
            last_producer_epoch=transaction.producer_epoch if may_go_on else NO_PRODUCER_EPOCH,
            next_producer_id=next_producer_id,
        )

    def decide(self, turn: Turn, transaction: TransactionMetadata, *, is_committed: bool) -> None:
        """The end of a writer, as its application has decided. Its producer hears nothing of it: the next one has the
        next epoch."""
        epoch = transaction.producer_epoch + 1
        self._prepare(turn, transaction, is_committed, epoch, last_producer_epoch=NO_PRODUCER_EPOCH)

    # -- markers -------------------------------------------------------------------------------------------------------

    def send_again(self, turn: Turn, transaction: TransactionMetadata) -> None:
        """The markers of a transaction that is prepared leave (again), behind all that the log has."""
        end = TransactionEnd(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            tuple(sorted(transaction.partitions)),
            max(transaction.version, 1),
            transaction.update_ms,
        )
        turn.answer(MarkersTicket(self._markers, end), end)

    def asked_again(self, turn: Turn, ticket: Ticket, request: SendMarkersAgain) -> None:
        transaction = self._prepared(request)
        if transaction is not None:
            self.send_again(turn, transaction)
        turn.answer(ticket, None)

    def written(self, turn: Turn, ticket: Ticket, request: MarkersWritten) -> None:
        transaction = self._prepared(request)
        if transaction is not None:
            self._complete(turn, transaction, _COMPLETE[transaction.state])
            self._waiting.ended(turn, transaction.transactional_id)
        turn.answer(ticket, None)

    def _prepared(self, of: MarkersWritten | SendMarkersAgain) -> TransactionMetadata | None:
        """The transaction that is meant; None if it is complete by now."""
        found = self._held.by_id.get(of.transactional_id)
        if found is None or not found.is_prepared:
            return None
        known = found.producer_id, found.producer_epoch, found.update_ms
        return found if known == (of.producer_id, of.producer_epoch, of.decided_ms) else None

    # -- records -------------------------------------------------------------------------------------------------------

    def _prepare(
        self, turn: Turn, transaction: TransactionMetadata, is_committed: bool, epoch: int, **changes: Any
    ) -> TransactionMetadata:
        """The decision; complete at once if no partition must hear of it."""
        if not transaction.partitions:
            ended = transaction._replace(producer_epoch=epoch, start_ms=turn.wall_ms, **changes)
            self._complete(turn, ended, TransactionState.COMPLETE_ABORT)
            self._timers.cancel(ended.transactional_id)
            return ended
        state = TransactionState.PREPARE_COMMIT if is_committed else TransactionState.PREPARE_ABORT
        prepared = transaction.moved(state, turn.wall_ms, producer_epoch=epoch, **changes)
        turn.write(TransactionLogKey(transactional_id=prepared.transactional_id), prepared)
        self._timers.cancel(prepared.transactional_id)
        if is_committed:
            self._counters.committed += 1
        else:
            self._counters.aborted += 1
        self.send_again(turn, prepared)
        return prepared

    def _complete(self, turn: Turn, transaction: TransactionMetadata, state: TransactionState) -> None:
        changes: dict[str, int] = {}
        if transaction.next_producer_id != NO_PRODUCER_ID:
            changes = {
                "producer_id": transaction.next_producer_id,
                "producer_epoch": 0,
                "next_producer_id": NO_PRODUCER_ID,
            }
        complete = transaction.moved(state, turn.wall_ms, partitions=frozenset(), **changes)
        turn.write(TransactionLogKey(transactional_id=complete.transactional_id), complete)


def _next_producer(transaction: TransactionMetadata, bumps_epoch: bool) -> EndTxnResponse:
    """The producer of the next transaction, of one that is decided."""
    if not bumps_epoch:
        return EndTxnResponse()
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(transaction.next_producer_id, 0)
    return EndTxnResponse(transaction.producer_id, transaction.producer_epoch)
