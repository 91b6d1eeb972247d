"""The start and end of one log, and what of its start is on the disk.

Kept by the log's parts together: an append moves the end, retention the start, a cut both. The start is the first
offset that can be read; the local start is the first one that is read from a segment here. Every log is on its disk
whole, so both are equal. A log that has its oldest records in another storage would have a later local start.

Not here: which record of it counts as flushed (flush_schedule.py).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import OffsetOutOfRangeError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.log.file_changes import FileChanges
from storage.log.segment_list import SegmentList

NO_LIMIT = 2**63


@dataclass(slots=True)
class LogSpan:
    """The start and end of a log."""

    topic_partition: TopicPartition
    start: int
    end: int
    claims_below: int = NO_LIMIT
    """The place where a truncation under way cuts: no checkpoint may claim more."""
    starts_below: int = NO_LIMIT
    """The place where a log that is being emptied will begin: no checkpoint may claim a later log start."""
    written_start: int = 0
    """A log start that is durable: a checkpoint has it, and no cut has lowered it since."""
    cuts: int = 0

    @property
    def local_start(self) -> int:
        """The first offset that is read from a segment on this disk. Invariant: never below `start`. A segment that
        ends at or below it may leave the disk."""
        return self.start

    def out_of_range(self, offset: int) -> OffsetOutOfRangeError:
        """The error for an offset outside of it; it tells both bounds."""
        why = f"{self.topic_partition}: offset {offset} is not in {self.start}..{self.end}"
        return OffsetOutOfRangeError(why, log_start_offset=self.start, log_end_offset=self.end)


class WrittenStart:
    """Knows which log start is on the disk: what a checkpoint may claim, and what no crash takes back.

    A log start that a broker has told others stays true, whatever role the replica has next and in whichever log dir
    the log is: so the log itself knows what is durable. Used on the log's thread, but for `claimed`.
    """

    __slots__ = ("_changes", "_segments", "_span")

    def __init__(self, span: LogSpan, segments: SegmentList, changes: FileChanges) -> None:
        """`span` is that of a log that was opened just now: all of it is durable."""
        self._span, self._segments, self._changes = span, segments, changes
        span.written_start = span.start

    @property
    def claimed(self) -> int:
        """The log start that a checkpoint may hold. In any thread, so the bound is read BEFORE the value."""
        return min(self._span.starts_below, self._span.start)

    @property
    def durable(self) -> int:
        """No crash takes the log start back below it: it was written, or the segments below are gone from the disk."""
        oldest = 0 if len(self._changes) else self._segments.oldest.base_offset
        return min(self._span.start, max(self._span.written_start, oldest))

    def note(self) -> Callable[[], None]:
        """Returns a function to be called once a checkpoint has the log start of now, or a later one. After a cut in
        between it does nothing: the checkpoint may be of before or after the cut."""
        span, start, cuts = self._span, self._span.start, self._span.cuts

        def written() -> None:
            if span.cuts == cuts:
                span.written_start = max(span.written_start, start)

        return written

    def __repr__(self) -> str:
        return f"WrittenStart({self.durable} of {self._span.start})"
