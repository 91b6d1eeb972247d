"""Figures of transactions: what this broker's shards have done since it started, and what one shard holds."""

from __future__ import annotations

from collections import Counter

from broker.coordination.held_memory import ShardMemory
from broker.transactions.transaction_memory import id_bytes, open_bytes
from broker.transactions.transaction_metadata import TransactionMetadata
from penstock.lazy_dataclass import dataclass
from penstock.messages.transactions.atomic_batches import application_id, application_of_writer
from penstock.messages.transactions.listing import TransactionState


@dataclass(slots=True)
class TransactionCounters:
    """The counts of transactions, which never fall. There is one per broker, shared by its shards. May be read in any
    thread."""

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

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory
        self.by_id: dict[str, TransactionMetadata] = {}
        self._states: Counter[TransactionState] = Counter()

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
        unit = unit_of(transactional_id)
        holder = self._memory.lasting.holder_of(unit)  # BEFORE the id itself goes
        self._memory.grown(unit, id_bytes(transaction) - id_bytes(before))
        self._memory.passing.changed(unit, open_bytes(transaction) - open_bytes(before), holder)

    def must_have_room_for(self, before: TransactionMetadata, after: TransactionMetadata) -> None:
        """Raises ResourceExhaustedError if the transaction may not have more partitions. The leaders of partitions add
        them for the producer (KIP-890), so they count for the party that holds the id, whichever broker asks."""
        holder = self._memory.lasting.holder_of(unit_of(after.transactional_id))
        refusal = self._memory.passing_refusal_of(open_bytes(after) - open_bytes(before), holder)
        if refusal is not None:
            raise refusal

    def give_up(self) -> None:
        """The state is used no more."""
        self.by_id = {}
        self._states.clear()

    def statistics(self) -> TransactionStatistics:
        """May be called in any thread."""
        states = self._states
        prepared = states[TransactionState.PREPARE_COMMIT] + states[TransactionState.PREPARE_ABORT]
        return TransactionStatistics(len(self.by_id), states[TransactionState.ONGOING], prepared, self._memory.bytes)

    def __repr__(self) -> str:
        return f"HeldTransactions({len(self.by_id)})"


def unit_of(transactional_id: str) -> str:
    """The unit of memory of an id: its own, or that of the application whose writer it is."""
    application = application_of_writer(transactional_id)
    return transactional_id if application is None else application_id(application)
