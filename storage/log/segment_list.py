"""The segments of one log in order: finds the one that holds an offset, reads, adds, drops and replaces segments.

Only a few full segments keep a descriptor and their indexes in memory; an idle log keeps none (`open_files.py`).
Truncation drops the newest segments, each durably before the next, so that no crash leaves a hole. Segments that
retention takes or the cleaner replaces leave only the list here; `file_changes.py` removes their files. A segment
always begins where the one before ends.

`log.py`, retention and the cleaner decide when to roll, drop or replace.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from penstock.errors import CleaningAbortedError, InvariantViolation
from storage.disk.file_names import INDEX_SUFFIXES
from storage.disk.file_system import FileSystem
from storage.log.later_read import LaterRead
from storage.log.log_types import CleanedSegment
from storage.segment.batch_check import BatchCheck
from storage.segment.checked_read import CheckedRead, read_checked
from storage.segment.cold_read import read_or_later
from storage.segment.open_files import OpenFiles
from storage.segment.places import Place, Wanted
from storage.segment.segment import Segment

WARM_SEGMENTS = 8
"""The most full segments of one log that stay open."""


class SegmentList:
    """The segments of one log, at least one; the last one is active."""

    __slots__ = ("_bases", "_directory", "_drop_is_unsynced", "_fs", "_open_files", "_segments", "_warm")

    def __init__(
        self, fs: FileSystem, directory: str, segments: list[Segment], open_files: OpenFiles | None = None
    ) -> None:
        """The given segments must be closed."""
        self._fs, self._directory, self._open_files = fs, directory, open_files
        self._segments = segments
        for segment in segments:
            segment.owned_within(open_files)
        self._bases = [segment.base_offset for segment in segments]
        self._drop_is_unsynced = False
        self._warm: dict[int, Segment] = {}
        """The open full segments, least recently used first."""

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
        """The segment that holds the offset; for an offset at or above the log end, the active one."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def read(self, wanted: Wanted, check: BatchCheck) -> CheckedRead:
        """Whole batches out of one segment; waits for the disk."""
        segment = self.holding(wanted.start_offset)
        found = read_checked(segment, wanted, check, is_active=segment is self.active)
        self.used(segment)
        return found

    def read_nowait(self, wanted: Wanted, check: BatchCheck, bytes_max: int) -> CheckedRead | LaterRead:
        """Whole batches out of one segment if nothing has to be read from the disk; otherwise the read that a thread
        makes, of no more than `bytes_max`."""
        segment = self.holding(wanted.start_offset)
        found = read_or_later(segment, wanted, check, bytes_max, is_active=segment is self.active)
        if isinstance(found, CheckedRead):
            self.used(segment)
        return found

    def used(self, segment: Segment) -> None:
        """The segment was read: its file stays open among the last few."""
        if segment is not self.active:
            self._keep_warm(segment)

    def _keep_warm(self, segment: Segment) -> None:
        """A full segment was used: it stays open. Above the limit, the least recently used one is closed."""
        self._warm.pop(segment.base_offset, None)
        self._warm[segment.base_offset] = segment
        if len(self._warm) > WARM_SEGMENTS:
            self._warm.pop(next(iter(self._warm))).release()

    def start_new(self, base_offset: int, interval_bytes: int) -> None:
        """A new active segment; its name is durable only after an fsync of the directory."""
        segment = Segment(self._fs, self._directory, base_offset, interval_bytes, self._open_files)
        segment.create()
        if self._segments:
            self.active.next_offset = base_offset
            self._keep_warm(self.active)
        self._segments.append(segment)
        self._bases.append(base_offset)

    def back_to(self, active: Segment, end: Place) -> bool:
        """An append failed. When it began, `active` was the active segment and ended at `end`: drop what was written
        since.

        True when files were removed. The removal is durable with the next flush.
        """
        removed = False
        while self.active is not active:
            segment = self._segments.pop()
            self._bases.pop()
            segment.delete()
            removed = True
        self._warm.pop(active.base_offset, None)
        active.truncate_to(end)
        return removed

    def drop_newest(self) -> None:
        """Remove the newest segment, durably; never the only one. After a shortage the next call syncs that first."""
        if self._drop_is_unsynced:
            self._sync_drop()
        segment = self.active
        segment.delete()
        self._segments.pop()
        self._bases.pop()
        self._warm.pop(segment.base_offset, None)
        self._sync_drop()

    def _sync_drop(self) -> None:
        self._drop_is_unsynced = True
        self._fs.fsync_dir(self._directory)
        self._drop_is_unsynced = False

    def truncate_to(self, segment: Segment, place: Place) -> None:
        """Drop all segments behind `segment`, and cut it at a boundary; it becomes the active one."""
        if segment is not self.active:
            while self.active is not segment:
                self.drop_newest()
            self._warm.pop(segment.base_offset, None)
            self._segments[-1] = segment.renewed()
        self.active.truncate_to(place)

    def start_over(self, base_offset: int, interval_bytes: int) -> None:
        """Drop every record and begin with an empty segment. It takes the oldest file, so a full disk has room for
        it."""
        while len(self._segments) > 1:
            self.drop_newest()
        self._warm.clear()
        new = Segment(self._fs, self._directory, base_offset, interval_bytes, self._open_files)
        self._give_file(self._segments[0], new)
        self._segments, self._bases = [new], [base_offset]
        self._fs.fsync_dir(self._directory)

    def _give_file(self, old: Segment, empty: Segment) -> None:
        """The old segment's file becomes the empty one's; durable only after an fsync of the directory.

        It is synced BEFORE it gets its name: after a crash old records must not stand under the offset of new ones.
        """
        old.truncate_to(Place(0, old.base_offset))
        self._fs.fdatasync(old.fd())
        old.close()
        for suffix in INDEX_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(old.stem + suffix)
        if empty.log_path != old.log_path:
            self._fs.rename(old.log_path, empty.log_path)
        empty.indexes.start_empty()

    def oldest_full(self, count: int) -> list[Segment]:
        """Up to `count` of the oldest segments, never the active one."""
        return self._segments[: min(count, len(self._segments) - 1)]

    def take(self, oldest: Sequence[Segment]) -> None:
        """The segments that `oldest_full` returned leave the list; their files stay."""
        self._replace(0, oldest, [])

    def replace(self, cleaned: CleanedSegment, replaced: Sequence[Segment], interval_bytes: int) -> Segment:
        """The cleaned segment takes the place of consecutive full segments; CleaningAbortedError if those have changed
        since the cleaner looked at them."""
        adjacent = all(after.base_offset == before.next_offset for before, after in pairwise(replaced))
        if not (adjacent and all(self.at_base(s.base_offset) is s and s is not self.active for s in replaced)):
            raise CleaningAbortedError(f"{self._directory}: the segments from {cleaned.base_offset} on have changed")
        if (cleaned.base_offset, cleaned.next_offset) != (replaced[0].base_offset, replaced[-1].next_offset):
            raise InvariantViolation(f"{self!r}: {cleaned} does not cover {replaced}")
        new = Segment(self._fs, self._directory, cleaned.base_offset, interval_bytes, self._open_files)
        new.adopt_cleaned(cleaned.path, cleaned.size_bytes, cleaned.next_offset)
        self._replace(bisect_right(self._bases, new.base_offset) - 1, replaced, [new])
        return new

    def _replace(self, at: int, old: Sequence[Segment], new: list[Segment]) -> None:
        for segment in old:
            self._warm.pop(segment.base_offset, None)
            segment.close()
        self._segments[at : at + len(old)] = new
        self._bases[at : at + len(old)] = [segment.base_offset for segment in new]

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def __repr__(self) -> str:
        return f"SegmentList({self._directory}, {len(self)} segments, active {self.active!r})"
