"""Reads whole batches out of one segment, and looks at those that may have rotted since they were last looked at.

One way for the event loop, which may not wait, and for a thread, which reads from a copy of the segment (cold_read.py).
Not here: which segment (`segment_list.py`), what a damaged batch is (`batch_check.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import CorruptFileError
from storage.disk.file_system import Found
from storage.segment.batch_check import BatchCheck, Span
from storage.segment.segment import Place, Segment, Wanted

Places = tuple[Place, Place]


class CheckedRead(NamedTuple):
    """The batches between two places of a segment."""

    records: Found
    begin: Place
    end: Place


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
    begin, end = places or segment.find(wanted, nowait=nowait)
    records = segment.read_between(begin, end, nowait=nowait)
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
