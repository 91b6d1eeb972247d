"""The aborted transactions of a log, and the `.txnindex` file that a segment has where the markers of some are in it.

     at  bytes  field                    one entry is 34 bytes, big-endian, no header, no checksum (Kafka's format)
      0      2  version = 0
      2      8  producer id
     10      8  first offset             of the transaction's first batch
     18      8  last offset              of its marker, which is in this segment
     26      8  last stable offset       when the marker was appended: no transaction that ended later has a first
                                         offset below it

Entries ascend by their last offsets. A reader that leaves out the records of aborted transactions asks for those that
overlap a range. It looks at the entries from the range's first offset on, up to one whose last stable offset is not
below the range's end.

In memory a log has all its entries, 32 bytes each: few transactions are aborted, and retention takes them out with
their segments. A file without a checksum is not believed: the snapshot of the log's producers has the checksum of each
(`producer_snapshot.py`), and a file that does not fit is made anew from the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

ENTRY = Struct(">hqqqq")
ENTRY_BYTES = ENTRY.size
VERSION = 0


class AbortedRange(NamedTuple):
    """An aborted transaction, as the log's index has it."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""


class IndexedSegment(NamedTuple):
    """The entries of one segment, or the first of them."""

    base_offset: int
    entries: int
    crc: int
    """The CRC-32C of the entries' bytes."""

    @classmethod
    def of(cls, base_offset: int, content: bytes) -> IndexedSegment:
        return cls(base_offset, len(content) // ENTRY_BYTES, crc32c(content))

    def of_file(self, content: bytes) -> bytes | None:
        """The segment's entries in the file's bytes, which may have more behind them; None if the file does not fit."""
        head = content[: self.entries * ENTRY_BYTES]
        return head if self == IndexedSegment.of(self.base_offset, head) else None


class AbortedTransactions:
    """The aborted transactions of one log, ascending by their markers."""

    __slots__ = ("_firsts", "_lasts", "_producers", "_stables")

    def __init__(self) -> None:
        self._producers, self._firsts = array("q"), array("q")
        self._lasts, self._stables = array("q"), array("q")

    def add(self, aborted: AbortedRange, last_stable_offset: int) -> None:
        """Adds an aborted transaction whose marker is the newest of all."""
        self._producers.append(aborted.producer_id)
        self._firsts.append(aborted.first_offset)
        self._lasts.append(aborted.last_offset)
        self._stables.append(last_stable_offset)

    def overlapping(self, from_offset: int, to_offset: int) -> list[AbortedRange]:
        """The transactions that may have records in `from_offset <= offset < to_offset`, by their markers."""
        found: list[AbortedRange] = []
        for at in range(bisect_left(self._lasts, from_offset), len(self._lasts)):
            if self._firsts[at] < to_offset:
                found.append(self._at(at))
            if self._stables[at] >= to_offset:
                break
        return found

    def _at(self, at: int) -> AbortedRange:
        return AbortedRange(self._producers[at], self._firsts[at], self._lasts[at])

    def cut(self, offset: int) -> bool:
        """Forget those whose markers are at or above the offset; True if there were some."""
        return self._keep(slice(0, bisect_left(self._lasts, offset)))

    def forget_below(self, offset: int) -> bool:
        """Forget those whose markers are below the offset; True if there were some."""
        return self._keep(slice(bisect_left(self._lasts, offset), None))

    def replace(self, base_offset: int, next_offset: int, left: Iterable[AbortedRange]) -> None:
        """Keeps only `left` of the markers in `base_offset <= offset < next_offset`."""
        kept = set(left)
        rows = range(bisect_left(self._lasts, base_offset), bisect_left(self._lasts, next_offset))
        for at in reversed([at for at in rows if self._at(at) not in kept]):
            for column in (self._producers, self._firsts, self._lasts, self._stables):
                del column[at]

    def _keep(self, rows: slice) -> bool:
        if len(range(len(self))[rows]) == len(self):
            return False
        self._producers, self._firsts = self._producers[rows], self._firsts[rows]
        self._lasts, self._stables = self._lasts[rows], self._stables[rows]
        return True

    def count(self, base_offset: int, next_offset: int) -> int:
        """How many have their markers in `base_offset <= offset < next_offset`."""
        return bisect_left(self._lasts, next_offset) - bisect_left(self._lasts, base_offset)

    def file_content(self, base_offset: int, next_offset: int) -> bytes:
        """The bytes of the `.txnindex` of a segment with these offsets."""
        rows = range(bisect_left(self._lasts, base_offset), bisect_left(self._lasts, next_offset))
        return b"".join(
            [
                ENTRY.pack(VERSION, self._producers[at], self._firsts[at], self._lasts[at], self._stables[at])
                for at in rows
            ]
        )

    def take_all(self, entries: Iterable[AbortedEntry]) -> None:
        """Adds entries. Each marker must be above those before it."""
        for entry in entries:
            self.add(entry.aborted, entry.last_stable_offset)

    def entries(self) -> Iterator[AbortedEntry]:
        """All, with their last stable offsets."""
        return (AbortedEntry(VERSION, self._at(at), self._stables[at]) for at in range(len(self)))

    def __iter__(self) -> Iterator[AbortedRange]:
        return map(AbortedRange._make, zip(self._producers, self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        return len(self._lasts)

    def __repr__(self) -> str:
        return f"AbortedTransactions({len(self)} entries)"


class AbortedEntry(NamedTuple):
    """One entry of a file."""

    version: int
    aborted: AbortedRange
    last_stable_offset: int


def iter_entries(content: bytes) -> Iterator[AbortedEntry]:
    """The whole entries of a file's bytes, unchecked; bytes that are left over are not looked at."""
    whole = len(content) // ENTRY_BYTES * ENTRY_BYTES
    for version, producer_id, first, last, stable in ENTRY.iter_unpack(content[:whole]):
        yield AbortedEntry(version, AbortedRange(producer_id, first, last), stable)
