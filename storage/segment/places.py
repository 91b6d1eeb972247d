"""Places in a .log: boundaries between batches, what a reader wants between two of them, and which are remembered.

A fetch at the tail begins at the end of an earlier append, and a high watermark is one too. So most boundaries that
readers ask for are known, and no index is searched. Older ones are found by the index and a short walk over headers
(segment.py).
"""

from __future__ import annotations

from typing import NamedTuple

KNOWN_PLACES = 1024
"""Boundaries remembered in each of two generations; there are fewer appends between two high watermarks."""
_NONE_KNOWN: dict[int, int] = {}
"""Shared by all segments that were not read yet; never changed."""


class Place(NamedTuple):
    """A boundary between batches: the batch that begins with `offset` begins at `position`."""

    position: int
    offset: int


class Wanted(NamedTuple):
    """A reader's request to a segment: whole batches from the one that holds `start_offset`, all below `end_offset`."""

    start_offset: int
    end_offset: int
    max_bytes: int
    min_one_batch: bool
    """True if the first batch may exceed `max_bytes`."""


class KnownPlaces:
    """The boundaries of one segment that were used lately, by offset."""

    __slots__ = ("_older", "_recent")

    def __init__(self) -> None:
        self._recent = self._older = _NONE_KNOWN

    def position_of(self, offset: int) -> int:
        """The position of the batch that begins with the offset; -1 if it is not known."""
        position = self._recent.get(offset, -1)
        return position if position >= 0 else self._older.get(offset, -1)

    def remember(self, offset: int, position: int) -> None:
        if not self._recent:
            self._recent = {}
        elif len(self._recent) >= KNOWN_PLACES:
            self._older, self._recent = self._recent, {}
        self._recent[offset] = position

    def forget(self) -> None:
        self._recent = self._older = _NONE_KNOWN

    def __repr__(self) -> str:
        return f"KnownPlaces({len(self._recent) + len(self._older)})"
