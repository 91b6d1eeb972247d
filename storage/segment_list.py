"""The segments of one log in order: which one holds an offset, reading across them, adding and dropping at the ends.

Only a few full segments keep a descriptor and their indexes in memory; the active one always does. Dropping is done so
that no crash leaves a hole: newest first (truncation) or oldest first (retention), each gone for good before the next.
Not here: when to roll or drop (`log.py`, retention).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator

from storage.file_system import FileSystem
from storage.segment import Place, Segment

WARM_SEGMENTS = 8
"""Full segments of one log that stay open; readers of more than that share them."""


class SegmentList:
    """Never empty; the last one is active."""

    __slots__ = ("_bases", "_directory", "_fs", "_segments", "_warm")

    def __init__(self, fs: FileSystem, directory: str, segments: list[Segment]) -> None:
        self._fs, self._directory = fs, directory
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._warm: OrderedDict[int, Segment] = OrderedDict()

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def oldest(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def newest_first(self) -> Iterator[Segment]:
        return reversed(self._segments)

    def at_base(self, base_offset: int) -> Segment | None:
        """The segment that begins exactly there."""
        at = bisect_right(self._bases, base_offset) - 1
        return self._segments[at] if at >= 0 and self._bases[at] == base_offset else None

    def holding(self, offset: int) -> Segment:
        """The segment where the offset is, or would be."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def read(self, start_offset: int, end_offset: int, max_bytes: int, min_one_batch: bool) -> tuple[bytes, Place]:
        """Whole batches out of one segment; the next one when the cleaner left nothing of the first."""
        at = max(bisect_right(self._bases, start_offset) - 1, 0)
        while True:
            segment = self._segments[at]
            records, place = segment.read(start_offset, end_offset, max_bytes, min_one_batch)
            if at == len(self._segments) - 1:
                return records, place
            self._keep_warm(segment)
            if records or place.offset < segment.next_offset:
                return records, place
            at += 1

    def _keep_warm(self, segment: Segment) -> None:
        """A full segment was used: it stays open, and the one that was used longest ago is closed."""
        self._warm[segment.base_offset] = segment
        self._warm.move_to_end(segment.base_offset)
        if len(self._warm) > WARM_SEGMENTS:
            self._warm.popitem(last=False)[1].release()

    def start_new(self, base_offset: int, interval_bytes: int) -> None:
        """A new active segment; its name is durable only after an fsync of the directory."""
        segment = Segment(self._fs, self._directory, base_offset, interval_bytes)
        segment.create()
        if self._segments:
            self.active.next_offset = base_offset
            self._keep_warm(self.active)
        self._segments.append(segment)
        self._bases.append(base_offset)

    def drop_newest(self) -> None:
        """Durable when it returns. The list may be empty then, for a moment."""
        self._drop(-1)

    def drop_oldest(self) -> None:
        """Durable when it returns; never the active one."""
        if len(self._segments) > 1:
            self._drop(0)

    def _drop(self, at: int) -> None:
        segment = self._segments.pop(at)
        self._bases.pop(at)
        self._warm.pop(segment.base_offset, None)
        segment.delete()
        self._fs.fsync_dir(self._directory)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def __repr__(self) -> str:
        return f"SegmentList({self._directory}, {len(self)} segments, active {self.active!r})"
