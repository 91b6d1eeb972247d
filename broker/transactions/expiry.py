"""Forgets the transactional ids that nobody has used for `transactional.id.expiration.ms`, in parts, by tombstones.

An id is as old as coordinators have watched it (coordination/watched_time.py), whatever the calendar says. Only where
nothing is open: an open transaction ends by its time-out first, one that is prepared by its markers. An
expired id that comes back gets a new producer id; its old producer is told INVALID_PRODUCER_ID_MAPPING. Pure.
"""

from __future__ import annotations

from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.turn import Turn
from broker.coordination.watched_time import WatchedTime
from broker.transactions.atomic_batches.held_applications import is_begun
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import HeldTransactions, TransactionCounters
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey
from broker.transactions.transaction_states import CLOSED

LOOKED_AT: Final = 2_000
"""Ids in one turn."""
_TIMER: Final = ("expiry",)
"""No transactional id is a tuple."""


class TransactionalIdExpiry:
    """Forgets the transactional ids of a shard that nobody uses."""

    def __init__(
        self,
        config: TransactionConfig,
        held: HeldTransactions,
        timers: Timers[Turn],
        watched: WatchedTime,
        counters: TransactionCounters,
    ) -> None:
        self._config, self._held, self._timers, self._counters = config, held, timers, counters
        self._watched = watched
        self._left: list[str] = []

    def look(self, turn: Turn) -> None:
        """Forgets expired ids: looks at LOOKED_AT of them a turn, and at all again after the cleanup interval."""
        self._watched.look(turn.now_ms, turn.wall_ms)
        if not self._left:
            self._left = list(self._held.by_id)
        part, self._left = self._left[:LOOKED_AT], self._left[LOOKED_AT:]
        for transactional_id in part:
            found = self._held.by_id.get(transactional_id)
            if found is not None and self._is_expired(found):
                turn.write(TransactionLogKey(transactional_id=transactional_id), None)
                self._counters.expired += 1
        wait_ms = 0 if self._left else self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set(_TIMER, turn.now_ms + wait_ms, self.look)

    def _is_expired(self, transaction: TransactionMetadata) -> bool:
        is_old = self._watched.age_ms(transaction.update_ms) >= self._config.transactional_id_expiration_ms
        return is_old and transaction.state in CLOSED and not is_begun(transaction)

    def __repr__(self) -> str:
        return f"TransactionalIdExpiry({len(self._left)} left of this pass)"
