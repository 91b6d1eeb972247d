"""The figures of a processor for Prometheus: as a collector of any registry, and on a page of its own.

    penstock_processing_records_total            records of committed transactions
    penstock_processing_outputs_total            records that these have written, dead letters included
    penstock_processing_dead_letters_total       …those of records whose handler raised
    penstock_processing_retries_total            failures of handlers after which the record is tried again
    penstock_processing_transactions_total       by `outcome`: committed, aborted
    penstock_processing_batch_seconds            a summary: from a poll's records to the end of their transaction

Every sample has the labels `group` and `transactional_id`. The numbers are read when they are asked for, in any thread.
Not here: what counts (record_processor.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.errors import ConfigError

ADDRESS: Final = "127.0.0.1"
_LABELS: Final = ("group", "transactional_id")
_PREFIX: Final = "penstock_processing_"


class ProcessingCollector:
    """A collector, as `CollectorRegistry.register` takes it."""

    def __init__(self, statistics: Callable[[], ProcessingStatistics], group: str, transactional_id: str) -> None:
        self._statistics, self._labels = statistics, (group, transactional_id)

    def collect(self) -> Iterator[Metric]:
        counts, labels = self._statistics(), self._labels
        for name, meaning, number in (
            ("records", "Records of committed transactions.", counts.records),
            ("outputs", "Records that committed transactions have written, dead letters included.", counts.outputs),
            ("dead_letters", "Records whose handler raised, and which went to the dead letters.", counts.dead_letters),
            ("retries", "Failures of handlers after which the record is tried again.", counts.retries),
        ):
            family = CounterMetricFamily(_PREFIX + name, meaning, labels=_LABELS)
            family.add_metric(labels, number)
            yield family
        ends = CounterMetricFamily(_PREFIX + "transactions", "Transactions that ended.", labels=(*_LABELS, "outcome"))
        ends.add_metric((*labels, "committed"), counts.committed)
        ends.add_metric((*labels, "aborted"), counts.aborted)
        yield ends
        seconds = SummaryMetricFamily(
            _PREFIX + "batch_seconds", "From a poll's records to the end of their transaction.", labels=_LABELS
        )
        seconds.add_metric(labels, counts.committed + counts.aborted, counts.seconds)
        yield seconds


def serve(collector: Any, port: int) -> Callable[[], None]:
    """Answer `/metrics` on this port of this machine from now on; returns the end of that. ConfigError if the port
    cannot be used."""
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, ADDRESS, registry)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"metrics_port={port}: {ADDRESS}:{port} cannot be used ({why}); choose another port"
        ) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
