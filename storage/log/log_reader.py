"""Reads one log: records from an offset on, and records by time. Waits for the disk only where it is asked to.

On the event loop nothing waits: what the page cache and the loaded indexes hold is read at once, anything else is
handed back as work for a thread (`LaterRead`, `ColdLookUp`), whose outcome is taken on the loop (`finish`,
`finish_look_up`). It counts only if the log still has those records, uncut. Used from one thread.
Not here: which offsets the log has (log_span.py), the threads (broker).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from penstock.types import TimestampAndOffset
from storage.disk.file_system import Found
from storage.log.later_read import LaterRead
from storage.log.log_parts import LogParts
from storage.log.log_types import FetchData
from storage.log.segment_list import SegmentList
from storage.segment.batch_check import BatchCheck
from storage.segment.batch_scan import NotCachedError
from storage.segment.checked_read import CheckedRead
from storage.segment.places import Wanted
from storage.segment.segment import Segment
from storage.segment.timestamp_lookup import LookUpNotes, TimeLookUp

COLD_READ_BYTES_MAX = 1024 * 1024
"""Limit for one read in a thread, except for a larger batch. Its bytes are in memory until they are answered."""


class Records(NamedTuple):
    """Whole batches, and the offset that comes after the last one."""

    records: Found
    next_offset: int


class ColdLookUp:
    """A look-up by time for a thread, in copies of the segments. `run` or `discard` must be called.

    A copy is dropped when the next one is looked at. So a log of any number of segments costs no more descriptors than
    it has open, and one, and no more memory than it has in use, and the indexes of one segment.
    """

    __slots__ = ("_copies", "_error", "_found", "_looked_at", "notes", "wanted")

    def __init__(self, segments: Iterable[Segment], wanted: TimeLookUp) -> None:
        self.wanted = wanted
        self.notes = LookUpNotes()
        """The work of `run`, and texts for the node's log; complete AFTER it."""
        self._looked_at: list[tuple[Segment, int]] = []
        self._copies: list[Segment] = []
        """The next one is the last."""
        self._found: TimestampAndOffset | None = None
        self._error: Exception | None = None
        try:
            for segment in segments:
                if segment.next_offset > wanted.log_start_offset and segment.size_bytes:
                    self._copies.append(segment.detached())
                    self._looked_at.append((segment, segment.cuts))
            self._copies.reverse()
        except OSError:
            self.discard()
            raise

    def run(self) -> None:
        """Makes the look-up. Blocks, in any thread. `result` raises its error."""
        try:
            try:
                self._found = self.wanted.find(self._one_by_one(), notes=self.notes)
            finally:
                self.discard()
        except Exception as error:
            self._error = error

    def _one_by_one(self) -> Iterator[Segment]:
        while self._copies:
            yield self._copies[-1]
            self._copies.pop().close()

    def discard(self) -> None:
        """Closes the copies."""
        while self._copies:
            self._copies.pop().close()

    def is_current(self, segments: SegmentList) -> bool:
        """True if no segment was cut, replaced or removed since; otherwise the result, or the error, is about a log
        that was another one."""
        return all(
            segments.at_base(segment.base_offset) is segment and segment.cuts == cuts
            for segment, cuts in self._looked_at
        )

    def result(self) -> TimestampAndOffset | None:
        """The result of `run`, AFTER it; raises its error."""
        if self._error is not None:
            raise self._error
        return self._found

    def __repr__(self) -> str:
        return f"ColdLookUp({self.wanted}, {len(self._copies)} segments)"


class LogReader:
    """Reads and looks up records of one log."""

    __slots__ = ("_counters", "_epochs", "_health", "_segments", "_span")

    def __init__(self, parts: LogParts) -> None:
        self._segments, self._epochs, self._span = parts.segments, parts.epochs, parts.span
        self._health, self._counters = parts.health, parts.counters

    def read(
        self, start_offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> FetchData:
        """Whole batches from the one that holds `start_offset`, all below `max_offset`. Waits for the disk;
        CorruptFileError for rot."""
        wanted = self._wanted(start_offset, max_bytes, max_offset, min_one_batch)
        records = Records(b"", start_offset)
        if start_offset < wanted.end_offset:
            with self._health.reading():
                found = self._segments.read(wanted, BatchCheck(self._epochs.entries))
            records = self._counted(found.records, found.end.offset, wanted)
        return FetchData(records.records, records.next_offset, self._span.start, self._span.end)

    def read_nowait(
        self, start_offset: int, max_bytes: int, max_offset: int, *, min_one_batch: bool = True
    ) -> Records | LaterRead:
        """Whole batches from the one that holds `start_offset`, at once; or the work that a thread must do for them,
        because the disk must be asked."""
        wanted = self._wanted(start_offset, max_bytes, max_offset, min_one_batch)
        if start_offset >= wanted.end_offset:
            return Records(b"", start_offset)
        with self._health.reading():
            found = self._segments.read_nowait(wanted, BatchCheck(self._epochs.entries), COLD_READ_BYTES_MAX)
        if isinstance(found, CheckedRead):
            return self._counted(found.records, found.end.offset, wanted)
        return found

    def finish(self, later: LaterRead, start_offset: int, max_offset: int) -> Records | None:
        """The records that a thread has read; None when they are not from this offset, or the log has changed there."""
        wanted = self._wanted(start_offset, 0, max_offset, True)
        with self._health.reading():
            found = later.taken(self._segments)
        if found is None or later.start_offset != start_offset or found.end.offset > wanted.end_offset:
            return None
        return self._counted(found.records, found.end.offset, wanted)

    def _wanted(self, start_offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Wanted:
        self._health.must_be_open()
        span = self._span
        if not span.start <= start_offset <= span.end:
            raise span.out_of_range(start_offset)
        end = span.end if max_offset is None else min(max_offset, span.end)
        return Wanted(start_offset, end, max_bytes, min_one_batch)

    def _counted(self, records: Found, next_offset: int, wanted: Wanted) -> Records:
        self._counters.read_bytes += len(records)
        return Records(records, next_offset if records else wanted.start_offset)

    def look_up_nowait(self, wanted: TimeLookUp) -> TimestampAndOffset | ColdLookUp | None:
        """The record, at once, or else what a thread has to do for it: to ask the disk, or to decode much."""
        self._health.must_be_open()
        with self._health.reading():
            try:
                return wanted.find(self._segments, nowait=True)
            except NotCachedError:
                return ColdLookUp(self._segments, wanted)

    def finish_look_up(self, cold: ColdLookUp, log_start_offset: int) -> TimestampAndOffset | ColdLookUp | None:
        """The result of a thread's look-up, or work for it once more when the log is another one by now."""
        self._health.must_be_open()
        if cold.wanted.log_start_offset != log_start_offset or not cold.is_current(self._segments):
            return self.look_up_nowait(replace(cold.wanted, log_start_offset=log_start_offset))
        with self._health.reading():
            return cold.result()

    def __repr__(self) -> str:
        return f"LogReader({self._segments!r})"
