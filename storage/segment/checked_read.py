"""Reads whole batches out of one segment, and looks at those that may have rotted since they were last looked at.

A read is one pread of batches that are not parsed. The work is to find its two ends. One way for the event loop, which
may not wait, and for a thread, which reads from a copy of the segment (cold_read.py). Not here: which segment
(`segment_list.py`), what a damaged batch is (`batch_check.py`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.errors import CorruptFileError
from storage.disk.file_system import Found
from storage.segment.batch_check import BatchCheck, Span
from storage.segment.batch_scan import scan_headers
from storage.segment.places import Place, Wanted
from storage.segment.segment import Segment

Places = tuple[Place, Place]


class CheckedRead(NamedTuple):
    """The batches between two places of a segment."""

    records: Found
    begin: Place
    end: Place


class ListedSegments(Protocol):
    """The segments of one log, as a read that ends later sees them."""

    def at_base(self, base_offset: int) -> Segment | None:
        """The segment that begins exactly there."""
        ...

    def used(self, segment: Segment) -> None:
        """The segment was read: its file may be kept open."""
        ...


def find_places(segment: Segment, wanted: Wanted, *, nowait: bool = False) -> Places:
    """The places where the batches that a reader wants begin and end; the same place twice without such batches."""
    begin = segment.place_of(wanted.start_offset, nowait=nowait)
    end = segment.place_of(wanted.end_offset, nowait=nowait)
    if begin.position >= end.position:
        return begin, begin
    if end.position - begin.position > wanted.max_bytes:
        end = _cut(segment, begin, wanted, nowait)
        segment.known_places.remember(end.offset, end.position)
    return begin, end


def _cut(segment: Segment, begin: Place, wanted: Wanted, nowait: bool) -> Place:
    """The last boundary within `max_bytes`, or the one after the first batch."""
    limit = begin.position + wanted.max_bytes
    file = segment.file(nowait=nowait)
    end = begin
    start = max(begin.position, segment.indexes.position_near(limit, file))
    for position, header in scan_headers(file, start):
        after = position + header.size_bytes
        if after > limit and not (wanted.min_one_batch and position == begin.position):
            return Place(position, header.base_offset) if position > begin.position else begin
        end = Place(after, header.next_offset)
    return end


def _between(segment: Segment, begin: Place, end: Place, nowait: bool) -> Found:
    if begin.position == end.position:
        return b""
    return segment.file(nowait=nowait).read_once(end.position - begin.position, begin.position)


def read_checked(
    segment: Segment,
    wanted: Wanted,
    check: BatchCheck,
    places: Places | None = None,
    *,
    is_active: bool,
    nowait: bool = False,
) -> CheckedRead:
    """`places` are where they stand, if that is known already. A full segment reaches to the next one, so one that ends
    before is damaged."""
    begin, end = places or find_places(segment, wanted, nowait=nowait)
    records = _between(segment, begin, end, nowait)
    if records and segment.unchecked(begin, end):
        is_end = end.position == segment.size_bytes
        span = Span(begin, Place(end.position, segment.next_offset) if is_end else end, wanted.start_offset)
        check.check(segment.log_path, records, span)
        segment.checked(begin, end)
    if not is_active and begin.position == segment.size_bytes:
        raise CorruptFileError(
            segment.log_path,
            begin.position,
            f"the file ends before offset {wanted.start_offset}, but the next segment begins at {segment.next_offset}",
        )
    return CheckedRead(records, begin, end)
