"""The numbers of clients for Prometheus, as one collector of any registry.

    prometheus_client.REGISTRY.register(MetricsCollector(producer, consumer))

A metric is named after the kind of client and after the number: `records-lag` of a consumer is
`penstock_consumer_records_lag`. The numbers are read when they are asked for, in any thread. One collector has all
clients of a program, because a registry takes each name once. Not here: the numbers themselves (client_metric.py), and
those of a processor (processing/processing_metrics.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.client.metrics.client_metric import ClientMetric

PREFIX: Final = "penstock_"


class HasMetrics(Protocol):
    """A producer, a consumer or an admin client, plain or async."""

    def metrics(self) -> tuple[ClientMetric, ...]: ...


class MetricsCollector:
    """A collector, as `CollectorRegistry.register` takes it, of any number of clients.

    It keeps none of them alive: a client that its program has dropped is left out.
    """

    def __init__(self, *clients: HasMetrics) -> None:
        self._clients: list[weakref.ref[HasMetrics]] = []
        for client in clients:
            self.add(client)

    def add(self, client: HasMetrics) -> None:
        """Adds a client. ValueError if one of its kind with the same labels is here: nobody could tell them apart."""
        who = _identity(client)
        here = self._alive()
        if any(_identity(one) == who for one in here):
            kind, labels = who
            named = ", ".join(f"{name}={value!r}" for name, value in labels if value)
            raise ValueError(
                f"{kind}: one with {named} is there already; give each client a client_id of its own, or `remove` the"
                " one before"
            )
        self._clients = [weakref.ref(one) for one in (*here, client)]  # a scrape meanwhile reads the list of before

    def remove(self, client: HasMetrics) -> None:
        """A client that is closed may be left out from now on. Nothing for one that is not here."""
        self._clients = [weakref.ref(one) for one in self._alive() if one is not client]

    def _alive(self) -> list[HasMetrics]:
        return [client for ref in self._clients if (client := ref()) is not None]

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for metric in (metric for client in self._alive() for metric in client.metrics()):
            name = prometheus_name(metric)
            family = families.get(name)
            if family is None:
                make = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
                family = families[name] = make(name, metric.meaning, labels=tuple(metric.labels))
            family.add_metric(tuple(metric.labels.values()), metric.value)
        yield from families.values()

    def __repr__(self) -> str:
        return f"MetricsCollector({len(self._clients)} clients)"


def prometheus_name(metric: ClientMetric) -> str:
    """The name in Prometheus' letters; that of a counter ends with `_total`."""
    return f"{PREFIX}{metric.group}_{metric.name.replace('-', '_')}"


def _identity(client: HasMetrics) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The kind of a client, and the labels that all its numbers have."""
    first = client.metrics()[0]
    labels: Mapping[str, str] = first.labels
    return first.group, tuple(labels.items())
