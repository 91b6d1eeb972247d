"""The numbers of `metrics()` of clients as OpenTelemetry's instruments, read when they are collected.

A number is named after the kind of client and after itself, as OpenTelemetry's bridge for Kafka's Java clients does:
`record-send-total` of a producer is `kafka.producer.record_send_total`. What only grows is an observable counter,
anything else an observable gauge. A client that its program has dropped is left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from penstock.client.metrics.client_metric import ClientMetric
from penstock.client.metrics.metrics_collector import HasMetrics
from penstock.errors import MissingDependencyError
from penstock.version import __version__

try:
    from opentelemetry import metrics
except ModuleNotFoundError:
    raise MissingDependencyError("penstock.otel needs OpenTelemetry: pip install 'penstock[otel]'") from None

SCOPE: Final = "penstock"


class ClientMeters:
    """The instruments of any number of clients, of one meter."""

    def __init__(self, *clients: HasMetrics, meter_provider: metrics.MeterProvider | None = None) -> None:
        """`meter_provider`: None for the program's global one."""
        provider = meter_provider or metrics.get_meter_provider()
        self._meter = provider.get_meter(SCOPE, __version__)
        self._clients: list[weakref.ref[HasMetrics]] = []
        self._made: set[str] = set()
        for client in clients:
            self.add(client)

    def add(self, client: HasMetrics) -> None:
        """Adds a client, and instruments for the numbers that no client before it had."""
        self._clients = [*(ref for ref in self._clients if ref() is not None), weakref.ref(client)]
        for one in client.metrics():
            name = instrument_name(one)
            if name not in self._made:
                self._made.add(name)
                make: Callable[..., Any] = (
                    self._meter.create_observable_counter if one.is_counter else self._meter.create_observable_gauge
                )
                make(name, callbacks=[partial(self._observed, name)], description=one.meaning)

    def _observed(self, name: str, _: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        return list(self._observations(name))

    def _observations(self, name: str) -> Iterator[metrics.Observation]:
        for ref in self._clients:
            client = ref()
            for one in () if client is None else client.metrics():
                if instrument_name(one) == name:
                    yield metrics.Observation(one.value, dict(one.labels))

    def __repr__(self) -> str:
        return f"ClientMeters({len(self._clients)} clients, {len(self._made)} instruments)"


def instrument_name(metric: ClientMetric) -> str:
    """The name of a number's instrument."""
    return f"kafka.{metric.group}.{metric.name.replace('-', '_')}"
