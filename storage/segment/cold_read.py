"""Reads one segment at once, or else makes the read that waits for the disk in a thread (`ColdRead`).

The thread works on a copy of the segment (`Segment.detached`) with a descriptor of its own. So appends, truncation,
retention and the cleaner go on meanwhile, and nothing is locked. The result is taken only under two conditions:

- the log still has that segment and has not cut it since, because records of another history must never be returned;
- no reader has reported bad bytes in it since, because the thread may not have checked them.

Not here: the threads (broker), whether the reader may have these records (partition). `storage/log/later_read.py` is
the port by which a log and its readers know this read; nothing outside of the segments' list knows the class.
"""

from __future__ import annotations

from storage.segment.batch_check import BatchCheck
from storage.segment.batch_scan import NotCachedError
from storage.segment.checked_read import CheckedRead, ListedSegments, Places, find_places, read_checked
from storage.segment.places import Wanted
from storage.segment.segment import Segment


class ColdRead:
    """A `LaterRead` of a segment's file. `run` or `discard` must be called, or a descriptor stays open."""

    __slots__ = (
        "_cancelled",
        "_check",
        "_cuts",
        "_doubts",
        "_error",
        "_found",
        "_is_active",
        "_places",
        "copy",
        "segment",
        "wanted",
    )

    def __init__(
        self, segment: Segment, wanted: Wanted, check: BatchCheck, places: Places | None, *, is_active: bool
    ) -> None:
        """`places` are where the batches stand, if that could be told without the disk."""
        self.segment, self.wanted = segment, wanted
        self._cuts, self._doubts = segment.cuts, segment.doubts
        self.copy = segment.detached(with_indexes=places is None)
        self._check, self._places, self._is_active = check, places, is_active
        self._found: CheckedRead | None = None
        self._error: Exception | None = None
        self._cancelled = False

    @property
    def start_offset(self) -> int:
        """The offset that was asked for."""
        return self.wanted.start_offset

    @property
    def bytes_max(self) -> int:
        """How much it reads, but for a first batch that is larger."""
        return self._places[1].position - self._places[0].position if self._places else self.wanted.max_bytes

    def run(self) -> None:
        """Makes the read. Blocks, in any thread. `result` raises its error."""
        try:
            try:
                if not self._cancelled:
                    self._found = read_checked(
                        self.copy, self.wanted, self._check, self._places, is_active=self._is_active
                    )
            finally:
                self.copy.close()
        except Exception as error:
            self._error = error

    def cancel(self) -> None:
        """The result is not wanted any more: `run`, which must still be called, then only closes the descriptor."""
        self._cancelled = True

    def discard(self) -> None:
        """Close the descriptor of a read that will not be run."""
        self.copy.close()

    @property
    def is_current(self) -> bool:
        """True if the segment, if the log still has it, was neither cut nor distrusted since."""
        return (self.segment.cuts, self.segment.doubts) == (self._cuts, self._doubts)

    @property
    def found_bytes(self) -> int:
        """The size of the result, AFTER `run`."""
        return len(self._found.records) if self._found is not None else 0

    def result(self) -> CheckedRead:
        """The result of `run`, AFTER it; raises its error."""
        if self._found is None:
            raise self._error or OSError(f"{self!r}: not read")
        return self._found

    def taken(self, segments: ListedSegments) -> CheckedRead | None:
        """The batches, AFTER `run`. None if the segment was cut, distrusted, replaced or removed meanwhile, or is not
        one of these. Raises the error of `run`."""
        segment = self.segment
        if segments.at_base(segment.base_offset) is not segment or not self.is_current:
            return None
        found = self.result()
        segment.learn(self.copy, found.begin, found.end)
        segments.used(segment)
        return found

    def __repr__(self) -> str:
        return f"ColdRead({self.segment.log_path}, from offset {self.wanted.start_offset})"


def read_or_later(
    segment: Segment, wanted: Wanted, check: BatchCheck, bytes_max: int, *, is_active: bool
) -> CheckedRead | ColdRead:
    """Whole batches of the segment, if nothing has to be read from the disk; otherwise the read that a thread makes,
    and then no more than `bytes_max`."""
    places: Places | None = None
    try:
        places = find_places(segment, wanted, nowait=True)
        return read_checked(segment, wanted, check, places, is_active=is_active, nowait=True)
    except NotCachedError:
        if places is not None and places[1].position - places[0].position > bytes_max:
            places = None
        # Its records go out later, and may be the first ones of their answer.
        wanted = wanted._replace(max_bytes=min(wanted.max_bytes, bytes_max), min_one_batch=True)
        return ColdRead(segment, wanted, check, places, is_active=is_active)
