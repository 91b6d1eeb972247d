"""The sparse time index of one segment: from which offset on is there a record at or after this time?

     at  bytes  field                    one entry is 12 bytes, big-endian, no header, no checksum
      0      8  timestamp_ms             the largest timestamp in the segment up to here
      8      4  relative offset          last offset of the first batch that has it, minus the segment's base offset

Both columns ascend strictly, so every batch before an entry's batch is older than the entry. The last entry of a full
segment is the segment's largest timestamp. The file is disposable like the offset index, and written at the same times.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt
from struct import Struct
from sys import byteorder
from typing import NamedTuple

ENTRY = Struct(">qi")
ENTRY_BYTES = ENTRY.size


class TimeEntry(NamedTuple):
    """The batch that ends at `base + relative_offset` was the first with this timestamp, the largest so far."""

    timestamp_ms: int
    relative_offset: int


class TimeIndex:
    """Ascending (timestamp, relative offset) pairs."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    @classmethod
    def parse(cls, content: bytes) -> TimeIndex | None:
        """The index from a file's bytes; None if they cannot be one."""
        if len(content) % ENTRY_BYTES:
            return None
        index = cls()
        words = array("i", content)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index._timestamps = array("q", halves.tobytes())
        index._offsets = words[2::3]
        if byteorder == "little":
            index._timestamps.byteswap()
            index._offsets.byteswap()
        columns = (index._timestamps, index._offsets)
        ascending = all(all(map(lt, column, islice(column, 1, None))) for column in columns)
        return index if ascending and (not index._offsets or index._offsets[0] >= 0) else None

    def to_bytes(self) -> bytes:
        timestamps, offsets = self._timestamps[:], self._offsets[:]
        if byteorder == "little":
            timestamps.byteswap()
            offsets.byteswap()
        halves = array("i", timestamps.tobytes())
        words = array("i", bytes(self.size_bytes))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return words.tobytes()

    def copy(self) -> TimeIndex:
        copy = TimeIndex()
        copy._timestamps, copy._offsets = self._timestamps[:], self._offsets[:]
        return copy

    def maybe_append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry when the timestamp is larger than the last one."""
        if not self._timestamps or timestamp_ms > self._timestamps[-1]:
            self._timestamps.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def before(self, timestamp_ms: int) -> TimeEntry | None:
        """The last entry older than the time; every batch before its batch is older, too."""
        return self._entry(bisect_left(self._timestamps, timestamp_ms) - 1)

    def floor_offset(self, relative_offset: int) -> TimeEntry | None:
        """The last entry whose batch does not end above the offset."""
        return self._entry(bisect_right(self._offsets, relative_offset) - 1)

    def last(self) -> TimeEntry | None:
        return self._entry(len(self._timestamps) - 1)

    def _entry(self, at: int) -> TimeEntry | None:
        return TimeEntry(self._timestamps[at], self._offsets[at]) if at >= 0 else None

    def truncate_to_relative_offset(self, relative_offset: int) -> None:
        """Forget the entries of batches that end at or above the offset."""
        keep = bisect_right(self._offsets, relative_offset - 1)
        del self._timestamps[keep:], self._offsets[keep:]

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * len(self._timestamps)

    def __len__(self) -> int:
        return len(self._timestamps)

    def __repr__(self) -> str:
        return f"TimeIndex({len(self)} entries, last {self.last()})"
