"""DescribeTransactions and ListTransactions: the transactions of a shard, as administrators see them (KIP-664). Pure.

Two answers are plainer than Kafka's: a transaction that is not open has no start, and a filter by duration (KIP-994)
lets none of those through.
"""

from __future__ import annotations

from broker.coordination.turn import Ticket, Turn
from broker.coordination.watched_time import WatchedTime
from broker.transactions.transaction_figures import HeldTransactions
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_states import CLOSED
from broker.transactions.transactional_ids import check_transactional_id
from metadata.patterns import compiled_pattern
from penstock.errors import ApiError, TransactionalIdNotFoundError
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from penstock.types import NO_TIMESTAMP

_STATES = {state.value for state in TransactionState}


class TransactionListings:
    """Answers DescribeTransactions and ListTransactions of one shard."""

    def __init__(self, held: HeldTransactions, watched: WatchedTime) -> None:
        self._held, self._watched = held, watched

    def describe(self, turn: Turn, ticket: Ticket, request: DescribeTransactionsRequest) -> None:
        turn.answer(ticket, DescribeTransactionsResponse(tuple(map(self._described, request.transactional_ids))))

    def _described(self, transactional_id: str) -> TransactionDescription:
        found = self._held.by_id.get(transactional_id)
        if found is None:
            return TransactionDescription(transactional_id, _not_there(transactional_id))
        return TransactionDescription(
            transactional_id,
            state=found.state.value,
            timeout_ms=found.timeout_ms,
            start_ms=_start_ms(found),
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            partitions=tuple(sorted(found.partitions)),
        )

    def list(self, turn: Turn, ticket: Ticket, request: ListTransactionsRequest) -> None:
        """InvalidRegularExpressionError for a pattern that is not RE2's."""
        matches = compiled_pattern(request.pattern).fullmatch if request.pattern else None
        states, producer_ids = frozenset(request.states), frozenset(request.producer_ids)
        self._watched.look(turn.now_ms, turn.wall_ms)

        def passes(one: TransactionMetadata) -> bool:
            if (states and one.state.value not in states) or (producer_ids and one.producer_id not in producer_ids):
                return False
            if request.duration_ms >= 0:
                start_ms = _start_ms(one)
                if start_ms == NO_TIMESTAMP or self._watched.age_ms(start_ms) <= request.duration_ms:
                    return False
            return matches is None or bool(matches(one.transactional_id.encode()))

        found = (
            TransactionListing(one.transactional_id, one.producer_id, one.state.value)
            for one in self._held.by_id.values()
            if passes(one)
        )
        unknown = tuple(word for word in dict.fromkeys(request.states) if word not in _STATES)
        turn.answer(ticket, ListTransactionsResponse(tuple(found), unknown))


def _start_ms(transaction: TransactionMetadata) -> int:
    return NO_TIMESTAMP if transaction.state in CLOSED else transaction.start_ms


def _not_there(transactional_id: str) -> ApiError:
    try:
        check_transactional_id(transactional_id)
    except ApiError as error:
        return error.with_traceback(None)
    if transactional_id.startswith(BATCH_PREFIX) and "#" not in transactional_id:
        return TransactionalIdNotFoundError(
            f"{transactional_id!r} is an application of atomic batches; its writers have ids of their own, which begin"
            " with it and '#': list them by a pattern"
        )
    return TransactionalIdNotFoundError(
        f"there is no transactional id {transactional_id!r}: never used, or not for transactional.id.expiration.ms"
    )
