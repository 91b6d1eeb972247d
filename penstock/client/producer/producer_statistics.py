"""The counts of one producer, as its users and monitoring systems read them. Not here: the counting (sender.py,
dispatcher.py)."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.metrics.client_metric import ClientMetric, Row, metrics_of
from penstock.lazy_dataclass import dataclass


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


def producer_metrics(
    counts: ProducerStatistics, labels: Mapping[str, str], connections: int
) -> tuple[ClientMetric, ...]:
    """The counts by the names that Kafka's producer has for them, and its others by names of the same kind."""
    rows = (
        Row("record-send-total", counts.records_acked, "Records that were acked."),
        Row("record-error-total", counts.records_failed, "Records that failed."),
        Row("record-retry-total", counts.records_retried, "Records that were sent once more."),
        Row("batch-send-total", counts.batches_acked, "Batches that were acked."),
        Row("batch-retry-total", counts.batches_retried, "Batches that were sent once more."),
        Row("possible-duplicates-total", counts.possible_duplicates, "Records that may be in the log once more."),
        Row("outgoing-byte-total", counts.bytes_sent, "Bytes of batches that were sent."),
        Row("request-total", counts.requests_sent, "Produce requests that were sent."),
        Row("requests-in-flight", counts.requests_in_flight, "Produce requests without an answer yet."),
        Row("buffered-bytes", counts.buffered_bytes, "Memory of records that are not acked yet."),
        Row("txn-commit-total", counts.transactions_committed, "Transactions that were committed."),
        Row("txn-abort-total", counts.transactions_aborted, "Transactions that were aborted."),
        Row("produce-throttle-time-avg", counts.throttle_time_avg_ms, "Milliseconds of quota waits, for each request."),
        Row("produce-throttle-time-max", counts.throttle_time_max_ms, "Milliseconds of the longest quota wait."),
        Row("connection-count", connections, "Brokers to which the client has a connection."),
    )
    return metrics_of("producer", labels, rows)
