"""The numbers that one client has pushed, by metric, topic, partition and node: a limited number of series. Pure.

Names and labels come from the client, so a metric's name must have the letters of one, labels are cut, and attributes
that are none of the three are left out. A sum that grows by deltas is added up. Not here: which clients have a place
(client_telemetry.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Final, NamedTuple

from broker.network.telemetry.otlp import Point

SERIES_MAX: Final = 200
"""Series of one client. A Java producer that pushes everything has some 120."""
LABEL_CHARACTERS_MAX: Final = 249
PREFIX: Final = "org.apache.kafka."
"""Begins the names of the metrics that Kafka defines, and is left out."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,199}")


class Series(NamedTuple):
    """The identity of a series."""

    metric: str
    topic: str
    partition: str
    node: str
    is_sum: bool


class ClientSeries:
    """The newest numbers of one client. Changed on the event loop, read in any thread."""

    def __init__(self) -> None:
        self._values: dict[Series, float] = {}

    def note(self, point: Point) -> bool:
        """False for a point that is left out."""
        if _NAME.fullmatch(point.metric) is None or not isfinite(point.value):
            return False
        attributes = point.attributes
        series = Series(
            point.metric.removeprefix(PREFIX),
            attributes.get("topic", "")[:LABEL_CHARACTERS_MAX],
            attributes.get("partition", "")[:LABEL_CHARACTERS_MAX],
            (attributes.get("node.id") or attributes.get("node_id", ""))[:LABEL_CHARACTERS_MAX],
            point.is_sum,
        )
        if series not in self._values and len(self._values) >= SERIES_MAX:
            return False
        before = self._values.get(series, 0.0) if point.is_delta and point.is_sum else 0.0
        self._values[series] = before + point.value
        return True

    def statistics(self) -> Mapping[Series, float]:
        """A snapshot; may be called in any thread."""
        return dict(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ClientSeries({len(self)} of {SERIES_MAX})"
