"""The counts of one producer, as its users read them. Not here: who counts (sender.py, dispatcher.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """Counts since the producer was made.

    `possible_duplicates`: how often a record may be in the log beyond its first time; the log never holds more
    duplicates than this. Without idempotence each attempt whose outcome is unknown counts, because it may have written
    the records. With it, only what a partition that has lost or forgotten the producer may have taken before.

    `throttle_time_ms`, `throttle_time_max_ms`: how long brokers made it wait because its quota was used up, in all and
    at most after one request. Records wait meanwhile; none fails for that before `delivery_timeout_ms`.
    """

    records_acked: int = 0
    records_failed: int = 0
    batches_acked: int = 0
    bytes_sent: int = 0
    requests_sent: int = 0
    batches_retried: int = 0
    records_retried: int = 0
    possible_duplicates: int = 0
    buffered_bytes: int = 0
    requests_in_flight: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    throttle_time_ms: int = 0
    throttle_time_max_ms: int = 0

    @property
    def throttle_time_avg_ms(self) -> float:
        """The wait after a request on average (Kafka's `produce-throttle-time-avg`, since the producer was made)."""
        return self.throttle_time_ms / max(self.requests_sent, 1)
