"""The metrics of a running job, for Prometheus: what the last micro-batches did and how far the job is behind.

Every sample has the labels `pipeline`, the job's name (`job` is Prometheus' own), and `query`; a job has one or two
queries. docs/pipelines.md has the table. The numbers come from streams.py; here they only get their names.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import field
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

ADDRESS = "127.0.0.1"
_LABELS = ("pipeline", "query")


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """The figures of one micro-batch; `lag` is None where the source does not count in records."""

    rows: int
    seconds: float
    ended_at_seconds: float
    late_rows: int
    duplicate_rows: int
    lag: int | None
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """The counts by kind (silver.py)."""
    topics: tuple[str, ...] = ()
    """The topics that the source reads, if it reads topics."""


class Figures:
    """The metrics of one job; serves them if `port` is not 0, until it is closed."""

    def __init__(self, job: str, port: int = 0) -> None:
        self._job = job
        self._server: tuple[WSGIServer, threading.Thread] | None = None
        self.registry = CollectorRegistry()
        self._batches = self._counter("batches", "Micro-batches that had rows.")
        self._rows = self._counter("input_rows", "Rows read from the source.")
        self._late = self._counter("late_rows", "Rows dropped by the watermark; they are in no result.")
        self._duplicates = self._counter("duplicate_rows", "Rows dropped because their id came before.")
        self._dead = Counter(
            "penstock_pipeline_dead_letters",
            "Rows written to the dead-letter topic, by what is wrong with them.",
            (*_LABELS, "kind"),
            registry=self.registry,
        )
        self._lag = self._gauge("lag_records", "Records between the last micro-batch and the end of the topic.")
        self._seconds = self._gauge("batch_seconds", "Duration of the last micro-batch.")
        self._ended_at = self._gauge("last_batch_timestamp_seconds", "When the last micro-batch ended.")
        if port:
            self._serve(port)

    def take(self, query: str, batch: BatchFigures) -> None:
        """Adds one micro-batch."""
        labels = (self._job, query)
        self._batches.labels(*labels).inc(1 if batch.rows else 0)
        self._rows.labels(*labels).inc(batch.rows)
        self._late.labels(*labels).inc(batch.late_rows)
        self._duplicates.labels(*labels).inc(batch.duplicate_rows)
        for kind, count in batch.dead_letters.items():
            self._dead.labels(*labels, kind).inc(count)
        self._seconds.labels(*labels).set(batch.seconds)
        self._ended_at.labels(*labels).set(batch.ended_at_seconds)
        if batch.lag is not None:
            self._lag.labels(*labels).set(batch.lag)

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(f"penstock_pipeline_{name}", meaning, _LABELS, registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"penstock_pipeline_{name}", meaning, _LABELS, registry=self.registry)

    def _serve(self, port: int) -> None:
        try:
            self._server = start_http_server(port, ADDRESS, self.registry)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"[run] metrics_port = {port}: {ADDRESS}:{port} cannot be used ({why}); choose another port"
            ) from None

    def close(self) -> None:
        """Frees the port, so that the next job of this process can use it."""
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()
            self._server = None

    def __enter__(self) -> Figures:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
