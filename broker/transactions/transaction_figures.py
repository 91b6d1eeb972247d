"""Figures of transactions: what this broker's shards have done since it started, and what one shard holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from broker.transactions.transaction_memory import TransactionMemory, transaction_bytes
from broker.transactions.transaction_metadata import TransactionMetadata
from penstock.messages.transactions.listing import TransactionState


@dataclass(slots=True)
class TransactionCounters:
    """One per broker, shared by its shards: they never fall. May be read in any thread."""

    begun: int = 0
    committed: int = 0
    """Decided so."""
    aborted: int = 0
    """Decided so, by whomever."""
    timed_out: int = 0
    fenced: int = 0
    """Aborted because a newer producer began."""
    expired: int = 0
    """Transactional ids."""
    batches_committed: int = 0
    """Versions of atomic batches."""
    batches_aborted: int = 0
    """Versions that were open, by a request, a newer version, or another run."""
    runs_fenced: int = 0
    """Runs of applications after which another one began."""


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """A snapshot of one shard; `bytes` is an estimate."""

    transactional_ids: int
    ongoing: int
    prepared: int
    bytes: int
    applications: int = 0
    """Applications of atomic batches."""


class HeldTransactions:
    """The transactions of a shard, by their ids, and what they add up to."""

    def __init__(self, memory: TransactionMemory) -> None:
        self._memory = memory
        self.by_id: dict[str, TransactionMetadata] = {}
        self._states: Counter[TransactionState] = Counter()
        self._bytes = 0

    def put(self, transactional_id: str, transaction: TransactionMetadata | None) -> None:
        """The newest state of an id; None: it is gone."""
        before = self.by_id.get(transactional_id)
        if transaction is None:
            self.by_id.pop(transactional_id, None)
        else:
            self.by_id[transactional_id] = transaction
            self._states[transaction.state] += 1
        if before is not None:
            self._states[before.state] -= 1
        grown = transaction_bytes(transaction) - transaction_bytes(before)
        self._bytes += grown
        self._memory.changed(grown)

    def give_up(self) -> None:
        """The memory is used no more."""
        self._memory.changed(-self._bytes)
        self._bytes = 0
        self.by_id = {}
        self._states.clear()

    def statistics(self) -> TransactionStatistics:
        """May be called in any thread."""
        states = self._states
        prepared = states[TransactionState.PREPARE_COMMIT] + states[TransactionState.PREPARE_ABORT]
        return TransactionStatistics(len(self.by_id), states[TransactionState.ONGOING], prepared, self._bytes)

    def __repr__(self) -> str:
        return f"HeldTransactions({len(self.by_id)})"
