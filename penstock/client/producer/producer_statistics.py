"""The counts of one producer, as its users and monitoring systems read them. Not here: the counting (sender.py,
dispatcher.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.metrics.client_metric import ClientMetric, Row, metrics_of
from penstock.client.metrics.recent_totals import Growth
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RecentSends:
    """Rates in a second, and averages, of the last 30 to 60 s."""

    records_acked: float = 0
    records_failed: float = 0
    records_retried: float = 0
    bytes_sent: float = 0
    requests_sent: float = 0
    batch_size_avg: float = 0
    records_per_request_avg: float = 0
    request_latency_avg_ms: float = 0
    queue_time_avg_ms: float = 0


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """Counts since the producer was made.

    `possible_duplicates`: how often a record may be in the log beyond its first time; the log never holds more
    duplicates than this. Without idempotence each attempt whose outcome is unknown counts, because it may have written
    the records. With it, only what a partition that has lost or forgotten the producer may have taken before.

    `throttle_time_ms`, `throttle_time_max_ms`: how long brokers made it wait because its quota was used up, in all and
    at most after one request. Records wait meanwhile; none fails for that before `delivery_timeout_ms`.

    `records_sent` and `batches_sent` count each attempt. `queue_time_ms`: from the first record of a batch until a
    request took it; `request_latency_ms`: from a request until an answer. `recent` has the averages of these sums.
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
    records_sent: int = 0
    batches_sent: int = 0
    batch_size_max: int = 0
    answers: int = 0
    request_latency_ms: int = 0
    request_latency_max_ms: int = 0
    queue_time_ms: int = 0
    queue_time_max_ms: int = 0
    buffer_available_bytes: int = 0
    recent: RecentSends = RecentSends()

    @property
    def throttle_time_avg_ms(self) -> float:
        """The wait after a request on average (Kafka's `produce-throttle-time-avg`, since the producer was made)."""
        return self.throttle_time_ms / max(self.requests_sent, 1)


COUNTS: Final = tuple(name for name in ProducerStatistics.__dataclass_fields__ if name != "recent")


def recent_sends(growth: Growth) -> RecentSends:
    return RecentSends(
        growth.rate("records_acked"),
        growth.rate("records_failed"),
        growth.rate("records_retried"),
        growth.rate("bytes_sent"),
        growth.rate("requests_sent"),
        growth.mean("bytes_sent", "batches_sent"),
        growth.mean("records_sent", "requests_sent"),
        growth.mean("request_latency_ms", "answers"),
        growth.mean("queue_time_ms", "batches_sent"),
    )


def producer_metrics(
    counts: ProducerStatistics, labels: Mapping[str, str], connections: int
) -> tuple[ClientMetric, ...]:
    """The counts by the names that Kafka's producer has for them, and its others by names of the same kind."""
    recent = counts.recent
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
        Row("record-send-rate", recent.records_acked, "Records that were acked, in a second of late."),
        Row("record-error-rate", recent.records_failed, "Records that failed, in a second of late."),
        Row("record-retry-rate", recent.records_retried, "Records that were sent once more, in a second of late."),
        Row("outgoing-byte-rate", recent.bytes_sent, "Bytes of batches that were sent, in a second of late."),
        Row("request-rate", recent.requests_sent, "Produce requests that were sent, in a second of late."),
        Row("batch-size-avg", recent.batch_size_avg, "Bytes of a batch on the wire, of late."),
        Row("batch-size-max", counts.batch_size_max, "Bytes of the largest batch."),
        Row("records-per-request-avg", recent.records_per_request_avg, "Records of a produce request, of late."),
        Row("request-latency-avg", recent.request_latency_avg_ms, "Milliseconds from request to answer, of late."),
        Row("request-latency-max", counts.request_latency_max_ms, "Milliseconds of the slowest answer."),
        Row("record-queue-time-avg", recent.queue_time_avg_ms, "Milliseconds that a batch waited to be sent, of late."),
        Row("record-queue-time-max", counts.queue_time_max_ms, "Milliseconds that the slowest batch waited."),
        Row("buffer-available-bytes", counts.buffer_available_bytes, "Memory for records that is free."),
        Row("connection-count", connections, "Brokers to which the client has a connection."),
    )
    return metrics_of("producer", labels, rows)
