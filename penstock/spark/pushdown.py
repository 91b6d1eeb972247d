"""Filter pushdown for batch reads: finds the partitions and offsets that pass a filter; only these are fetched.

Spark gives a list of filters that all must hold, and does not check again a filter that the source claims. So only
`topic`, `partition` and `offset` compared with a literal are claimed, because these are exact.

Record times are not in order within a partition. So a lower bound of the timestamp only tells where to begin: at the
first record that is not before it, because all records below that one are before it. The filter stays with Spark, too.
An upper bound tells nothing: a record before it may stand anywhere. Pure except for the descriptor.

Spark has pushdown off by default, and then refuses every read of a source that merely defines `pushFilters`
(DATA_SOURCE_PUSHDOWN_DISABLED). It compares `__func__` of the method with the base class's function. `PushFilters`
gives Spark a bound object that carries that function as `__func__`. So with pushdown off the source counts as one
without `pushFilters`, and with pushdown on it works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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

from penstock.spark.planning import OFFSET_MAX, PlannedRange
from penstock.types import TopicPartition

NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The partitions and offsets that pass the claimed filters; None means all."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    lo: int = 0
    hi: int = OFFSET_MAX
    from_ms: int | None = None

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

    def begun_by(self, one: Filter) -> Pushed:
        """This with the lower bound of a filter on the timestamp, which must be checked all the same."""
        if getattr(one, "attribute", ()) != ("timestamp",):
            return self
        match one:
            case GreaterThan() | GreaterThanOrEqual() | EqualTo() | EqualNullSafe():
                bounds = [one.value]
            case In():
                bounds = list(one.value)
            case _:
                return self
        times = [_floor_ms(bound) for bound in bounds]
        known = [time for time in times if time is not None and time > 0]
        if not known or len(known) < len(times):
            return self
        return replace(self, from_ms=max(min(known), self.from_ms or 0))

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


def _floor_ms(bound: object) -> int | None:
    """The time in ms that is not above the bound; None if it is not a point in time."""
    if not isinstance(bound, datetime) or bound.tzinfo is None:
        return None
    return (bound - _EPOCH) // timedelta(milliseconds=1)


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
            reader.pushed = reader.pushed.begun_by(one)
            yield one
        else:
            reader.pushed = pushed
