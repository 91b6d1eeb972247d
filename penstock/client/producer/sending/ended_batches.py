"""Ends batches as the dispatcher has decided: memory goes back, futures are done, and all of it is counted.

On the sender's thread. Not here: the decisions (dispatcher.py, failed_batches.py), and what the futures' callers do.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.producer.memory import MemoryPool
from penstock.client.producer.producer_statistics import ProducerStatistics
from penstock.client.producer.sending.outcomes import Acked, Again, Failed, Outcome, Refused
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.errors import PenstockError


class EndedBatches:
    """The ends of one producer's batches, counted since it was made."""

    def __init__(self, memory: MemoryPool, transaction: OpenTransaction | None, wake: Callable[[], object]) -> None:
        """`wake` is called when the transaction has failed: its other batches are to go."""
        self._memory, self._transaction, self._wake = memory, transaction, wake
        self._counts = dict.fromkeys(ProducerStatistics.__dataclass_fields__, 0)

    @property
    def batches_acked(self) -> int:
        return self._counts["batches_acked"]

    def note_request(self, size_bytes: int) -> None:
        """A request was sent; `size_bytes` of records."""
        self._counts["requests_sent"] += 1
        self._counts["bytes_sent"] += size_bytes

    def note_throttle(self, throttle_ms: int) -> None:
        """A broker has answered that its quota is used up, and for how long it reads no more."""
        self._counts["throttle_time_ms"] += throttle_ms
        self._counts["throttle_time_max_ms"] = max(self._counts["throttle_time_max_ms"], throttle_ms)

    def apply(self, outcomes: list[Outcome]) -> None:
        """Ends the batches that are acked or have failed, counts every outcome, and gives their memory back."""
        counts = self._counts
        for outcome in outcomes:
            batch = outcome.batch
            records = batch.record_count
            if isinstance(outcome, Again):
                counts["batches_retried"] += 1
                counts["records_retried"] += records
                continue
            if isinstance(outcome, Refused):
                self._note_failure(next(iter(batch.refused.values())))
                counts["records_failed"] += outcome.record_count
                counts["batches_retried"] += 1
                counts["records_retried"] += records - outcome.record_count
                continue
            self._memory.give_back(batch)
            if isinstance(outcome, Acked):
                counts["batches_acked"] += 1
                counts["records_acked"] += records
                counts["possible_duplicates"] += records * batch.possible_duplicates(is_acked=True)
                batch.finish(outcome.base_offset, outcome.log_append_time_ms)
            elif isinstance(outcome, Failed):
                counts["records_failed"] += records
                counts["possible_duplicates"] += records * batch.possible_duplicates(is_acked=False)
                self._note_failure(outcome.error)
                batch.fail(outcome.error)

    def _note_failure(self, error: PenstockError) -> None:
        """Fails the open transaction, BEFORE the records' futures tell the error."""
        if self._transaction is not None:
            self._transaction.on_failed(error)
            self._wake()

    def statistics(self, requests_in_flight: int) -> ProducerStatistics:
        now = {"buffered_bytes": self._memory.used_bytes, "requests_in_flight": requests_in_flight}
        if self._transaction is not None:
            now |= self._transaction.counts()
        return ProducerStatistics(**{**self._counts, **now})

    def __repr__(self) -> str:
        return f"EndedBatches({self._counts['batches_acked']} acked, {self._counts['records_failed']} records failed)"
