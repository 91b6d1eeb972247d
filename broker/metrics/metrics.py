"""The metrics of a node at /metrics, collected by prometheus-client.

Counters and gauges are read from the parts' `statistics()` when a scrape comes, so no part knows this library. Only the
request times and the flush times are observed as they happen (histograms.py). Names follow Kafka's metrics in
Prometheus' spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from broker.metrics.histograms import Histogram, Times
from broker.network.request_channel import Request
from penstock.errors import UnknownServerError
from penstock.types import ListenerType

PHASES = ("queue", "local", "remote", "response", "total")


class Reading(NamedTuple):
    """One number to show. `is_counter` numbers only rise while the node runs; their names get `_total`. Readings of one
    name, with different labels, follow each other. A tuple, because a scrape makes thousands of them."""

    name: str
    help: str
    value: float
    is_counter: bool = False
    labels: tuple[tuple[str, str], ...] = ()


class Readings:
    """A collector that asks for all readings at every scrape."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        for name, readings in groupby(self._read(), key=lambda reading: reading.name):
            found = list(readings)
            metric = Metric(name, found[0].help, "counter" if found[0].is_counter else "gauge")
            sample_name = f"{name}_total" if found[0].is_counter else name
            metric.samples = [Sample(sample_name, dict(reading.labels), reading.value) for reading in found]
            yield metric


class Metrics:
    """The node's registry, and its request histograms. Not here: the HTTP endpoint (exposition.py)."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the times when each counter was made, as series
        self.registry = CollectorRegistry()
        self.registry.register(Readings(read))
        self._seconds = self._timed(
            "penstock_request_seconds",
            "Time of a request by phase: in the request queue, in its API, waiting, in the response queue, in all.",
            ("api", "phase", "listener_type"),
        )
        self.registry.register(Readings(self._answered))
        self._errors = Counter(
            "penstock_request_errors",
            "Errors answered, by API and name: one for a whole request, or one for each partition that failed.",
            ["api", "error", "listener_type"],
            registry=self.registry,
        )
        self.flush_timed = self._timer(
            "penstock_log_flush_seconds", "Time of a flush of one log (fdatasync), good or bad."
        )
        self.commit_timed = self._timer(
            "penstock_quorum_commit_seconds", "Time from a decision of the active controller to its commit."
        )
        self.loop_lag = self._timer(
            "penstock_event_loop_lag_seconds",
            "How much later than asked for a timer of the event loop ran, measured four times a second.",
        )
        self._phases: dict[tuple[str, ListenerType], tuple[Times, ...]] = {}

    def _timed(self, name: str, meaning: str, labels: tuple[str, ...] = ()) -> Histogram:
        histogram = Histogram(name, meaning, labels)
        self.registry.register(histogram)
        return histogram

    def _timer(self, name: str, meaning: str) -> Callable[[float], None]:
        return self._timed(name, meaning).of().observe

    def _answered(self) -> Iterator[Reading]:
        text = "Answered requests by API and protocol (GRPC, KAFKA)."
        for (api, listener_type), (*_, total) in tuple(self._phases.items()):
            labels = (("api", api), ("listener_type", listener_type))
            yield Reading("penstock_requests", text, total.count, is_counter=True, labels=labels)

    def request_sent(self, request: Request, sent_ns: int) -> None:
        """Count one answered request and its times."""
        kind = api, listener_type = request.api, request.caller.listener_type
        phases = self._phases.get(kind)
        if phases is None:
            phases = self._phases[kind] = tuple(self._seconds.of(api, phase, listener_type) for phase in PHASES)
            self._errors.labels(api, UnknownServerError.kafka_name, listener_type)  # shown as 0 until there is one
        queue, local, remote, response, total = phases
        received_ns, dequeued_ns, handled_ns = request.received_ns, request.dequeued_ns, request.handled_ns
        completed_ns = max(request.completed_ns, handled_ns)
        queue.observe((dequeued_ns - received_ns) / 1e9)
        local.observe((handled_ns - dequeued_ns) / 1e9)
        remote.observe((completed_ns - handled_ns) / 1e9)
        response.observe((sent_ns - completed_ns) / 1e9)
        total.observe((sent_ns - received_ns) / 1e9)
        for error in request.failures:
            self._errors.labels(api, error.kafka_name, listener_type).inc()
