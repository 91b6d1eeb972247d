"""One transactional id, as its last record has it. The state of the coordinator is these, and nothing else.

`previous_producer_id` is the producer id before the last change. It differs from `producer_id` only where that change
gave the producer a new id because its epochs were used up: then a request that is repeated still names the old one.
`last_producer_epoch` is the epoch that the same producer had before it was given this one, -1 if it had none. Not
here: decisions (producer_init.py, partitions.py, ending.py), bytes (transaction_records.py).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from broker.transactions.transaction_states import MOVES, PREPARED
from penstock.errors import InvariantViolation, ProducerFencedError
from penstock.messages.transactions.listing import TransactionState
from penstock.types import NO_TIMESTAMP, TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
"""The epoch that only a marker has: no producer is ever given it, or the marker of its transaction would have no
epoch."""
SET_BACK_MS: Final = 60_000
"""An answer about markers that is still under way was asked for less long ago. Far below what one stretch of watched
time reserves (coordination/watched_time.py), so a stamp that has risen is of the present stretch, too."""
VERSION_1: Final = 0
"""Kafka's number in the log for every version before 2."""
VERSION_2: Final = 2


class TransactionMetadata(NamedTuple):
    """One transactional id, as its last record has it. `start_ms` and `update_ms` are the calendar's."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    update_ms: int
    start_ms: int = NO_TIMESTAMP
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer goes on with this id when the end is complete; -1 where it keeps its own."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    version: int = VERSION_1
    """The transaction version of the producer, as far as it is known."""

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_exhausted(self) -> bool:
        """The next epoch is not for a producer."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def why_aborted(self) -> str:
        """The reason for its producer, as far as the record tells it: that its time was up; else empty."""
        is_aborted = self.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
        if not is_aborted or self.start_ms == NO_TIMESTAMP or self.update_ms - self.start_ms < self.timeout_ms:
            return ""
        return f"it was open for longer than its time-out of {self.timeout_ms} ms, and was aborted"

    def fenced(self, producer_id: int, producer_epoch: int) -> ProducerFencedError:
        """The error of a producer whose epoch is over, or is one that no producer has."""
        was_its_own = producer_epoch == self.last_producer_epoch
        why = f"; its transaction: {self.why_aborted}" if was_its_own and self.why_aborted else ""
        return ProducerFencedError(
            f"producer {producer_id} has epoch {producer_epoch}, and that of {self.transactional_id!r} is"
            f" {self.producer_epoch} now{why}"
        )

    def moved(self, state: TransactionState, wall_ms: int, **changes: Any) -> TransactionMetadata:
        """The id as its next record has it. Invariant: `update_ms` differs from that before. It tells two transactions
        of one producer apart, so it rises where the calendar is set back a little. Where the calendar is set back by
        more, an id that was once stamped by a calendar far ahead must not go on with its stamps: they would say nothing
        of its use."""
        if state not in MOVES[self.state]:
            raise InvariantViolation(f"{self} cannot become {state.value}")
        is_a_little = self.update_ms < wall_ms + SET_BACK_MS
        update_ms = max(wall_ms, self.update_ms + 1) if is_a_little else wall_ms
        return self._replace(state=state, update_ms=update_ms, previous_producer_id=self.producer_id, **changes)
