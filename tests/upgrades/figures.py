"""The table of a pass: what became of the records that were sent in each of its steps.

A record belongs to the step in which it was sent, a gap to the step in which it ended. Everything comes from the
accounts of the clients (clients/telling.py) and from what a reader found in the topics when all was over. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

Line = Sequence[Any]
"""As clients/telling.py says."""
FAILED: Final = "failed"
COMMITTED: Final = "committed"
Record = tuple[str, int]
"""Key and value, which no two records share."""
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Row:
    """One step."""

    acked: int = 0
    failed: int = 0
    lost: int = 0
    doubled: int = 0
    gap_s: float = 0.0
    """The longest time in which a partition acked nothing."""
    pause_s: float = 0.0
    """The longest time in which a writer of transactions ended none."""


@dataclass(frozen=True, slots=True)
class Found:
    """The records of both topics as a reader of committed records finds them when nobody writes any more."""

    plain: Mapping[Place, Record]
    transactional: Mapping[Place, Record]


@dataclass(slots=True)
class Accounts:
    """The lines of each client, by its name."""

    writers: dict[str, Sequence[Line]] = field(default_factory=dict)
    transactions: dict[str, Sequence[Line]] = field(default_factory=dict)
    readers: dict[str, Sequence[Line]] = field(default_factory=dict)
    members: dict[str, Sequence[Line]] = field(default_factory=dict)

    def acks(self) -> dict[str, list[Line]]:
        """The acks of each writer of single records."""
        return {name: [line for line in lines if line[0] != FAILED] for name, lines in self.writers.items()}

    def failures(self) -> Iterator[Line]:
        for lines in (*self.writers.values(), *self.transactions.values()):
            yield from (line for line in lines if line[0] == FAILED)

    def ends(self, outcome: str) -> Iterator[tuple[list[Record], float, float]]:
        """The records of each transaction that ended so, and when it began and ended."""
        for lines in self.transactions.values():
            for _, key, values, began_at, ended_at in (line for line in lines if line[0] == outcome):
                yield [(key, value) for value in values], began_at, ended_at


def rows(began_at: Sequence[float], accounts: Accounts, found: Found) -> list[Row]:
    """One row for each step, by the times at which they began."""
    made = [Row() for _ in began_at]

    def row(at: float) -> Row:
        return made[max(0, bisect_right(began_at, at) - 1)]

    copies = {"plain": Counter(found.plain.values()), COMMITTED: Counter(found.transactional.values())}
    for partition, offset, key, value, sent_at, _ in _each(accounts.acks()):
        row(sent_at).acked += 1
        is_there = copies["plain"][key, value] > 0
        row(sent_at).lost += not is_there if offset is None else found.plain.get((partition, offset)) != (key, value)
        row(sent_at).doubled += max(0, copies["plain"][key, value] - 1)
    for records, began, _ in accounts.ends(COMMITTED):
        for record in records:
            row(began).acked += 1
            row(began).lost += copies[COMMITTED][record] == 0
            row(began).doubled += max(0, copies[COMMITTED][record] - 1)
    for _, _, at in accounts.failures():
        row(at).failed += 1
    acked_at: dict[int, list[float]] = defaultdict(list)
    for partition, _, _, _, _, at in _each(accounts.acks()):
        acked_at[partition].append(at)
    for end, seconds in gaps(acked_at.values()):
        row(end).gap_s = max(row(end).gap_s, seconds)
    ends = [[line[4] for line in lines if line[0] != FAILED] for lines in accounts.transactions.values()]
    for end, seconds in gaps(ends):
        row(end).pause_s = max(row(end).pause_s, seconds)
    return made


def gaps(times: Iterable[Sequence[float]]) -> Iterator[tuple[float, float]]:
    """The end and the length of each time between two moments of a series."""
    for series in times:
        yield from ((after, after - before) for before, after in pairwise(sorted(series)))


def wrongs(accounts: Accounts, found: Found) -> Iterator[tuple[str, str]]:
    """Kind and text of what readers of transactions and members of groups must not see, or must."""
    aborted = {record for records, _, _ in accounts.ends("aborted") for record in records}
    for record in sorted(aborted.intersection(found.transactional.values())):
        yield "aborted-read", f"{record} was aborted, and is there for a reader of committed records"
    all_records = {*found.plain.values(), *found.transactional.values()}
    for name, lines in accounts.members.items():
        seen = {(line[3], line[4]) for line in lines}
        for record in sorted(all_records - seen)[:5]:
            yield "not-consumed", f"{name} was never given {record}"
        for record in sorted(aborted & seen)[:5]:
            yield "aborted-read", f"{name} was given {record}, which was aborted"
    for name, lines in (accounts.writers | accounts.transactions).items():
        if not any(line[0] != FAILED for line in lines):
            yield "idle", f"{name} did nothing"


def table(title: str, names: Sequence[str], made: Sequence[Row]) -> Iterator[str]:
    """The rows as Markdown."""
    yield f"| {title} | acked | failed | lost | doubled | longest gap of a partition, s | of transactions, s |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, row in zip(names, made, strict=True):
        counts = f"{row.acked:,} | {row.failed} | {row.lost} | {row.doubled}"
        yield f"| {name} | {counts} | {row.gap_s:.1f} | {row.pause_s:.1f} |"


def _each(lines: Mapping[str, Iterable[Line]]) -> Iterator[Any]:
    for each in lines.values():
        yield from each
