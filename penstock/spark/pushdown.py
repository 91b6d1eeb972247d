"""Filter pushdown for batch reads: finds the partitions and offsets that pass a filter; only these are fetched.

Spark gives a list of filters that all must hold, and does not check again a filter that the source claims. So only
`topic`, `partition` and `offset` compared with a literal are claimed, because these are exact. A filter on the
timestamp stays with Spark, because record times are not in order within a partition. Pure except for the descriptor.

Spark has pushdown off by default, and then refuses every read of a source that merely defines `pushFilters`
(DATA_SOURCE_PUSHDOWN_DISABLED). It compares `__func__` of the method with the base class's function. `PushFilters`
gives Spark a bound object that carries that function as `__func__`. So with pushdown off the source counts as one
without `pushFilters`, and with pushdown on it works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.planning import PlannedRange
from penstock.types import TopicPartition

NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pushed:
    """The partitions and offsets that pass the claimed filters; None means all."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    lo: int = 0
    hi: int = OFFSET_MAX

    def wants(self, tp: TopicPartition) -> bool:
        """Whether any record of a partition can pass."""
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )

    def narrow(self, span: PlannedRange) -> PlannedRange:
        """The part of a range that can pass."""
        lo = min(max(span.lo, self.lo), span.hi)
        return replace(span, lo=lo, hi=max(min(span.hi, self.hi), lo))

    def take(self, one: Filter) -> Pushed | None:
        """This and one filter more; None when the filter is not claimed."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        name = path[0] if len(path) == 1 else ""
        if isinstance(one, IsNotNull):
            return self if name in NEVER_NULL else None
        if name in ("topic", "partition"):
            return self._take_names(name, one)
        if name == "offset" and isinstance(getattr(one, "value", None), int):
            return self._take_offset(one)
        return None

    def _take_names(self, name: str, one: Filter) -> Pushed | None:
        if isinstance(one, In):
            values = frozenset(one.value)
        elif isinstance(one, (EqualTo, EqualNullSafe)):
            values = frozenset([one.value])
        else:
            return None
        if None in values:
            return None
        if name == "topic":
            return replace(self, topics=values if self.topics is None else self.topics & values)
        return replace(self, partitions=values if self.partitions is None else self.partitions & values)

    def _take_offset(self, one: Filter) -> Pushed | None:
        match one:
            case EqualTo() | EqualNullSafe():
                return replace(self, lo=max(self.lo, one.value), hi=min(self.hi, one.value + 1))
            case GreaterThan():
                return replace(self, lo=max(self.lo, one.value + 1))
            case GreaterThanOrEqual():
                return replace(self, lo=max(self.lo, one.value))
            case LessThan():
                return replace(self, hi=min(self.hi, one.value))
            case LessThanOrEqual():
                return replace(self, hi=min(self.hi, one.value + 1))
        return None


class PushFilters:
    """The descriptor behind `pushFilters`."""

    def __get__(self, reader: Any, owner: type | None = None) -> Any:
        return self if reader is None else _BoundPushFilters(reader)


class _BoundPushFilters:
    """The object that Spark calls; it looks like a method that was not overridden."""

    def __init__(self, reader: Any) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        return claim(self._reader, filters)


def claim(reader: Any, filters: Iterable[Filter]) -> Iterator[Filter]:
    """Keeps exact filters in `reader.pushed`; returns the filters that Spark must check itself."""
    for one in filters:
        pushed = reader.pushed.take(one)
        if pushed is None:
            yield one
        else:
            reader.pushed = pushed
