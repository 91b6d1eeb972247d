"""The numbers of clients as instruments: counters, gauges, and nothing of a client that is gone."""

from __future__ import annotations

import gc
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from penstock.client.metrics.client_metric import ClientMetric
from penstock.otel.client_meters import ClientMeters


class Client:
    """A client with two numbers."""

    def __init__(self, client_id: str, sent: float) -> None:
        self.client_id, self.sent = client_id, sent

    def metrics(self) -> tuple[ClientMetric, ...]:
        labels = {"client_id": self.client_id}
        return (
            ClientMetric("record-send-total", self.sent, labels, "producer", "Records sent."),
            ClientMetric("buffer-available-bytes", 7.0, labels, "producer", "Free memory."),
        )


def read(reader: InMemoryMetricReader) -> dict[str, tuple[str, dict[str, float]]]:
    data: Any = reader.get_metrics_data()
    found = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
        points = {str(point.attributes["client_id"]): float(point.value) for point in metric.data.data_points}
        found[metric.name] = (type(metric.data).__name__, points)
    return found


def test_numbers_are_read_when_they_are_collected_and_a_dropped_client_is_left_out() -> None:
    reader = InMemoryMetricReader()
    first, second = Client("one", 3), Client("two", 4)
    meters = ClientMeters(first, meter_provider=MeterProvider([reader]))
    meters.add(second)
    first.sent = 5
    assert read(reader) == {
        "kafka.producer.record_send_total": ("Sum", {"one": 5.0, "two": 4.0}),
        "kafka.producer.buffer_available_bytes": ("Gauge", {"one": 7.0, "two": 7.0}),
    }
    del second
    gc.collect()
    assert read(reader)["kafka.producer.buffer_available_bytes"] == ("Gauge", {"one": 7.0})
