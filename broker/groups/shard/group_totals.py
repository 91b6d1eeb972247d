"""Counts of the work of this broker's groups since it started, over all its shards, those that are gone too.

A shard counts for itself, and leaves its counts here when its state is given up. The sums never fall: a reading that
comes while a shard leaves does not show less than the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class GroupCounts(NamedTuple):
    """Counts of one shard since it was loaded, or of all."""

    commits: int = 0
    """Committed offsets."""
    rebalances: int = 0
    """New generations, and new epochs of groups."""
    removed_offsets: int = 0
    """Offsets that expired, or whose topics are gone."""

    def plus(self, other: GroupCounts) -> GroupCounts:
        return GroupCounts(*map(sum, zip(self, other, strict=True)))


class GroupTotals:
    """The counts of a broker's groups. There is one per broker, shared by its shards."""

    def __init__(self) -> None:
        self._of_the_gone = self._reported = GroupCounts()

    def retire(self, counts: GroupCounts) -> None:
        """The counts of a shard that counts no more."""
        self._of_the_gone = self._of_the_gone.plus(counts)

    def with_live(self, shards: Iterable[GroupCounts]) -> GroupCounts:
        """The sums, with those of the shards that count. May be called in the thread of a scrape."""
        found = self._of_the_gone
        for counts in shards:
            found = found.plus(counts)
        self._reported = GroupCounts(*map(max, zip(self._reported, found, strict=True)))
        return self._reported

    def __repr__(self) -> str:
        return f"GroupTotals({self._reported})"
