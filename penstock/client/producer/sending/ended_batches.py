"""Ends batches as the dispatcher has decided: memory goes back, futures are done, and all of it is counted.

On the sender's thread. Not here: the decisions (dispatcher.py, failed_batches.py), and what the futures' callers do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.client.metrics.recent_totals import RecentTotals
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.memory import MemoryPool
from penstock.client.producer.producer_statistics import COUNTS, ProducerStatistics, recent_sends
from penstock.client.producer.sending.outcomes import Acked, Again, Failed, Outcome, Refused
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.clock import Clock
from penstock.errors import PenstockError


class EndedBatches:
    """The ends of one producer's batches, counted since it was made."""

    def __init__(
        self, memory: MemoryPool, transaction: OpenTransaction | None, wake: Callable[[], object], clock: Clock
    ) -> None:
        """`wake` is called when the transaction has failed: its other batches are to go."""
        self._memory, self._transaction, self._wake, self._clock = memory, transaction, wake, clock
        self._counts = dict.fromkeys(COUNTS, 0)
        self._recent = RecentTotals()

    @property
    def batches_acked(self) -> int:
        return self._counts["batches_acked"]

    def note_request(self, batches: Sequence[ProducerBatch], size_bytes: int) -> None:
        """A request was sent; `size_bytes` of records."""
        counts, now_ms = self._counts, self._clock.now_ms()
        self._recent.look(now_ms, counts)
        counts["requests_sent"] += 1
        counts["bytes_sent"] += size_bytes
        counts["batches_sent"] += len(batches)
        for batch in batches:
            queued_ms = now_ms - batch.created_ms
            counts["records_sent"] += batch.record_count
            counts["queue_time_ms"] += queued_ms
            counts["queue_time_max_ms"] = max(counts["queue_time_max_ms"], queued_ms)
            counts["batch_size_max"] = max(counts["batch_size_max"], len(batch.encoded or b""))

    def note_latency(self, latency_ms: int) -> None:
        """An answer came, `latency_ms` after its request had left."""
        counts = self._counts
        counts["answers"] += 1
        counts["request_latency_ms"] += latency_ms
        counts["request_latency_max_ms"] = max(counts["request_latency_max_ms"], latency_ms)

    def note_throttle(self, throttle_ms: int) -> None:
        """A broker has answered that its quota is used up, and for how long it reads no more."""
        self._counts["throttle_time_ms"] += throttle_ms
        self._counts["throttle_time_max_ms"] = max(self._counts["throttle_time_max_ms"], throttle_ms)

    def apply(self, outcomes: list[Outcome]) -> None:
        """Ends the batches that are acked or have failed, counts every outcome, and gives their memory back."""
        counts = self._counts
        if outcomes:
            self._recent.look(self._clock.now_ms(), counts)
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
        memory = self._memory
        now = {
            "buffered_bytes": memory.used_bytes,
            "buffer_available_bytes": memory.available_bytes,
            "requests_in_flight": requests_in_flight,
        }
        if self._transaction is not None:
            now |= self._transaction.counts()
        growth = self._recent.growth(self._clock.now_ms(), self._counts)
        return ProducerStatistics(**{**self._counts, **now}, recent=recent_sends(growth))

    def __repr__(self) -> str:
        return f"EndedBatches({self._counts['batches_acked']} acked, {self._counts['records_failed']} records failed)"
