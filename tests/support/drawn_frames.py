"""Draws plans over one frame of Spark, and counts what each must give with plain Python.

A plan is drawn from a seed: filters, unions, joins of the frame with itself, distinct, limits, caches, views, CTEs and
subqueries, over a frame that is made once and used by every plan. Spark keeps what it has planned of a source in the
frame, so a fault there shows only where a frame is used again. The plain answer is a list of records.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Record:
    """The part of a record that the plans see."""

    topic: str
    partition: int
    offset: int
    second: int


COLUMNS = ("topic", "partition", "offset", "unix_seconds(timestamp) AS second")


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter, as SQL and in Python."""

    sql: str
    holds: Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class Both:
    """One drawn plan: Spark's frame and the plain answer, and how it was made."""

    frame: DataFrame
    records: list[Record]
    story: str


@dataclass(slots=True)
class Drawer:
    """Draws over the base frame; `views` and `cached` are dropped by `close`."""

    spark: SparkSession
    base: DataFrame
    records: list[Record]
    draw: random.Random
    views: list[str] = field(default_factory=list)
    cached: list[DataFrame] = field(default_factory=list)

    def condition(self) -> Condition:
        """A filter of the kinds that Spark pushes, or one that it can't push."""
        partition, offset = self.draw.randrange(4), self.draw.randrange(-1, 30)
        second = self.draw.randrange(0, 60)
        known = self.records[0].topic
        return self.draw.choice(
            [
                Condition(f"partition = {partition}", lambda r: r.partition == partition),
                Condition(f"partition IN (0, {partition})", lambda r: r.partition in (0, partition)),
                Condition(f"partition <> {partition}", lambda r: r.partition != partition),
                Condition(f"offset >= {offset}", lambda r: r.offset >= offset),
                Condition(f"offset < {offset}", lambda r: r.offset < offset),
                Condition(f"offset = {offset}", lambda r: r.offset == offset),
                Condition(f"timestamp >= timestamp_seconds({second})", lambda r: r.second >= second),
                Condition(f"timestamp < timestamp_seconds({second})", lambda r: r.second < second),
                Condition(f"topic = '{known}'", lambda r: r.topic == known),
                Condition("topic = 'another'", lambda r: r.topic == "another"),
                Condition("topic IS NULL", lambda r: False),
                Condition(f"offset % 3 = {partition}", lambda r: r.offset % 3 == partition),
            ]
        )

    def leaf(self) -> Both:
        """The base frame, filtered by up to two conditions."""
        frame, records, story = self.base, self.records, "base"
        for _ in range(self.draw.randrange(3)):
            one = self.condition()
            frame, records = frame.where(one.sql), [r for r in records if one.holds(r)]
            story += f" where {one.sql}"
        return Both(frame.selectExpr(*COLUMNS), records, story)

    def plan(self, depth: int = 2) -> Both:
        """A tree of operations over leaves of the one frame."""
        if depth == 0:
            return self.leaf()
        make = self.draw.choice(
            [self.leaf, self._union, self._join, self._distinct, self._limit, self._cache, self._view, self._anti_join]
        )
        return make() if make == self.leaf else make(depth - 1)

    def _union(self, depth: int) -> Both:
        left, right = self.plan(depth), self.plan(depth)
        return Both(left.frame.union(right.frame), left.records + right.records, f"({left.story} + {right.story})")

    def _join(self, depth: int) -> Both:
        left, right = self.plan(depth), self.plan(depth)
        there = Counter(right.records)
        records = [r for r in left.records for _ in range(there[r])]
        frame = left.frame.join(right.frame, ["topic", "partition", "offset", "second"])
        return Both(frame, records, f"({left.story} join {right.story})")

    def _anti_join(self, depth: int) -> Both:
        left, right = self.plan(depth), self.plan(depth)
        gone = set(right.records)
        frame = left.frame.join(right.frame, ["topic", "partition", "offset", "second"], "left_anti")
        return Both(frame, [r for r in left.records if r not in gone], f"({left.story} without {right.story})")

    def _distinct(self, depth: int) -> Both:
        one = self.plan(depth)
        return Both(one.frame.distinct(), list(set(one.records)), f"distinct {one.story}")

    def _limit(self, depth: int) -> Both:
        one, count = self.plan(depth), self.draw.randrange(1, 40)
        frame = one.frame.orderBy("partition", "offset", "second").limit(count)
        ordered = sorted(one.records, key=lambda r: (r.partition, r.offset, r.second))
        return Both(frame, ordered[:count], f"limit {count} of {one.story}")

    def _cache(self, depth: int) -> Both:
        one = self.plan(depth)
        self.cached.append(one.frame.cache())
        return Both(self.cached[-1], one.records, f"cached {one.story}")

    def _view(self, depth: int) -> Both:
        one, name = self.plan(depth), self.view_name()
        one.frame.createOrReplaceTempView(name)
        frame = self.spark.sql(f"WITH part AS (SELECT * FROM {name}) SELECT * FROM part")
        return Both(frame, one.records, f"view of {one.story}")

    def view_name(self) -> str:
        self.views.append(f"drawn_{len(self.views)}_{self.draw.randrange(10**6)}")
        return self.views[-1]

    def counts_in_one_statement(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Several filtered counts of the one frame as subqueries of one statement: Spark's and the plain ones."""
        name = self.view_name()
        self.base.createOrReplaceTempView(name)
        conditions = [self.condition() for _ in range(3)] + [Condition("true", lambda r: True)]
        counts = ", ".join(f"(SELECT count(*) FROM {name} WHERE {one.sql})" for one in conditions)
        found = self.spark.sql(f"SELECT {counts}").first()
        wanted = tuple(sum(one.holds(r) for r in self.records) for one in conditions)
        return tuple(found or ()), wanted, str([one.sql for one in conditions])

    def close(self) -> None:
        for frame in self.cached:
            frame.unpersist()
        for name in self.views:
            self.spark.catalog.dropTempView(name)
