"""One number of a client for a monitoring system, and the tables by which counts become such numbers. Pure.

A name is Kafka's where Kafka's client has a metric with that meaning. What a number belongs to is in its labels and
never in its name. Not here: which numbers a client has (producer_statistics.py, consumer_metrics.py, admin_types.py),
and Prometheus (metrics_collector.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Group = Literal["producer", "consumer", "admin"]


class ClientMetric(NamedTuple):
    """A number of one client, as of now. A name that ends with `-total` only grows; any other goes up and down.

    `labels` has `client_id`, and `transactional_id` of a producer, `group_id` of a consumer; `topic` and `partition`
    where the number is of one partition.
    """

    name: str
    value: float
    labels: Mapping[str, str]
    group: Group
    meaning: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("-total")


class Row(NamedTuple):
    """A line of a table: a metric's name, its value and its meaning."""

    name: str
    value: float
    meaning: str


def metrics_of(group: Group, labels: Mapping[str, str], rows: Sequence[Row]) -> tuple[ClientMetric, ...]:
    """The numbers of a client, all with the same labels."""
    return tuple(ClientMetric(name, value, labels, group, meaning) for name, value, meaning in rows)
