"""The sparse offset index of one segment: where in the .log does a batch with this offset stand?

     at  bytes  field                    one entry is 8 bytes, big-endian, no header, no checksum
      0      4  relative offset          last offset of a batch, minus the segment's base offset
      4      4  position                 of that batch's first byte in the .log

Entries ascend in both columns. In memory they are two arrays, searched by bisection in C. The file is written when the
segment is full and when the log is closed. It is disposable: `parse` refuses bytes that cannot be an index, and an
entry is compared with its batch before it is used (`segment_indexes.py`). In both cases the index is rebuilt from the
log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import islice
from operator import lt
from struct import Struct
from sys import byteorder
from typing import NamedTuple

ENTRY = Struct(">ii")
ENTRY_BYTES = ENTRY.size
MAX_RELATIVE_OFFSET = 2**31 - 1
"""The field has four bytes, with a sign."""
INTERVAL_BATCHES_MAX = 200
"""The most batches between two entries, whatever a topic's index.interval.bytes is: a look-up reads as many headers. By
default 4 KiB are between them, some 60 of the smallest batches."""
INTERVAL_BYTES_MAX = 1024 * 1024
"""The most bytes between two entries, but for the last batch. The first append after a start checks as many, on the
event loop, and a look-up by time reads them whole."""


class IndexEntry(NamedTuple):
    """A batch whose last offset is `base + relative_offset` begins at `position`."""

    relative_offset: int
    position: int


class OffsetIndex:
    """Ascending (relative offset, position) pairs."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def parse(cls, content: bytes, log_size_bytes: int) -> OffsetIndex | None:
        """The index from a file's bytes; None if they cannot be the index of a .log of that size."""
        index = cls()
        if len(content) % ENTRY_BYTES:
            return None
        cells = array("i", content)
        if byteorder == "little":
            cells.byteswap()
        index._offsets, index._positions = cells[0::2], cells[1::2]
        return index if index._is_sane(log_size_bytes) else None

    @staticmethod
    def entry_of(content: bytes) -> IndexEntry:
        """One entry from a file's bytes, unchecked."""
        return IndexEntry(*ENTRY.unpack(content))

    def _is_sane(self, log_size_bytes: int) -> bool:
        if not self._offsets:
            return True
        if self._offsets[0] < 0 or self._positions[0] < 0 or self._positions[-1] >= log_size_bytes:
            return False
        return all(all(map(lt, column, islice(column, 1, None))) for column in (self._offsets, self._positions))

    def to_bytes(self) -> bytes:
        cells = array("i", bytes(ENTRY_BYTES * len(self)))
        cells[0::2], cells[1::2] = self._offsets, self._positions
        if byteorder == "little":
            cells.byteswap()
        return cells.tobytes()

    def copy(self) -> OffsetIndex:
        copy = OffsetIndex()
        copy._offsets, copy._positions = self._offsets[:], self._positions[:]
        return copy

    def append(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor_offset(self, relative_offset: int) -> IndexEntry | None:
        """The last entry that is not above the offset."""
        return self._entry(bisect_right(self._offsets, relative_offset) - 1)

    def floor_position(self, position: int) -> IndexEntry | None:
        """The last entry that is not behind the position."""
        return self._entry(bisect_right(self._positions, position) - 1)

    def last(self) -> IndexEntry | None:
        return self._entry(len(self._offsets) - 1)

    def _entry(self, at: int) -> IndexEntry | None:
        return IndexEntry(self._offsets[at], self._positions[at]) if at >= 0 else None

    def truncate_to_position(self, position: int) -> None:
        """Forget the entries of batches at or behind the position."""
        keep = bisect_right(self._positions, position - 1)
        del self._offsets[keep:], self._positions[keep:]

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * len(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"OffsetIndex({len(self)} entries, last {self.last()})"
