"""Metrics named at the fields of statistics: `passes: int = counter("penstock_…", "Help.")` in a `@measured` class.

A number and what it means to an operator stand in one place, and no part knows how metrics are collected:
`broker/metrics/field_readings.py` reads them. In a dataclass that changes, each such field has a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from penstock.lazy_dataclass import dataclass

T = TypeVar("T")
METRIC = "metric"
"""The key of the `MetricField` in the metadata of a field."""
INNER = "inner"
"""The key of the class of a field's value in the metadata of the field."""


class MetricField(NamedTuple):
    """The metric that a field is shown as. Fields of one name have different labels, and follow each other."""

    name: str
    help: str
    is_counter: bool
    of: Callable[[Any], float] | None
    """Makes a number of the field's value, if that is not a number."""
    labels: tuple[tuple[str, str], ...]


def counter(
    name: str, help: str, of: Callable[[Any], float] | None = None, *, default: Any = MISSING, **labels: str
) -> Any:
    """A field with a number that only rises while the node runs; the name in the metrics gets `_total`."""
    return field(default=default, metadata={METRIC: MetricField(name, help, True, of, tuple(labels.items()))})


def gauge(
    name: str, help: str, of: Callable[[Any], float] | None = None, *, default: Any = MISSING, **labels: str
) -> Any:
    """A field with a number that rises and falls."""
    return field(default=default, metadata={METRIC: MetricField(name, help, False, of, tuple(labels.items()))})


def inner(kind: type) -> Any:
    """A field with statistics of their own class, which are shown in its place."""
    return field(metadata={INNER: kind})


@dataclass_transform(frozen_default=True, field_specifiers=(counter, gauge, inner))
def measured(kind: type[T]) -> type[T]:
    """A frozen dataclass with such fields. mypy would take them for defaults in a plain one."""
    return dataclass(frozen=True, slots=True)(kind)


def in_seconds(elapsed_ms: int) -> float:
    """A time in milliseconds as metrics show it; 0 for one that is not known yet (below 0)."""
    return max(0, elapsed_ms) / 1000
