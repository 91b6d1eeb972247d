"""Cuts the end of one log, or all of it; knows what of its start and end may be claimed on the disk.

The order keeps a crash from looking like rot. The checkpoints of the log dir are lowered BEFORE any record is cut, and
until the cut has ended they claim nothing above it (`LogSpan.claims_below`), because a thread may write them at any
time. The snapshots of producers above the cut are removed BEFORE as well. Then the segments are cut. AFTER that the
log's start, end, epochs, producers and flush state follow what the segments hold: a shortage in between may leave more
than was wanted. A cut waits for the disk, on the event loop.

Not here: the flush that makes a cut durable (log.py), and where a history leaves another one (the broker).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from storage.log.file_changes import FileChanges
from storage.log.flush import FlushTracker
from storage.log.log_health import LogHealth
from storage.log.log_types import LogCounters
from storage.log.producer_log import ProducerLog
from storage.log.segment_list import SegmentList
from storage.segment.epoch_cache import EpochCache

NO_LIMIT = 2**63


@dataclass(slots=True)
class LogSpan:
    """Where a log starts and ends."""

    start: int
    end: int
    claims_below: int = NO_LIMIT
    """While a truncation is under way, where it cuts: no checkpoint may claim more."""
    written_start: int = 0
    """A log start that is durable: a checkpoint has it, and no cut has lowered it since."""
    cuts: int = 0


class WrittenStart:
    """Knows which log start is on the disk: what a checkpoint may claim, and what no crash takes back.

    What a broker has told others of a log start stays true, whatever role the replica has next and in whichever log dir
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
        return min(self._span.claims_below, self._span.start)

    @property
    def durable(self) -> int:
        """No crash takes the log start back below it: it was written, or the segments below are gone from the disk."""
        oldest = 0 if len(self._changes) else self._segments.oldest.base_offset
        return min(self._span.start, max(self._span.written_start, oldest))

    def note(self) -> Callable[[], None]:
        """To be called once a checkpoint has the log start of now, or a later one. A cut in between makes it count for
        nothing: the checkpoint may be of before or after it."""
        span, start, cuts = self._span, self._span.start, self._span.cuts

        def written() -> None:
            if span.cuts == cuts:
                span.written_start = max(span.written_start, start)

        return written

    def __repr__(self) -> str:
        return f"WrittenStart({self.durable} of {self._span.start})"


@dataclass(frozen=True, slots=True)
class CutParts:
    """The parts of a log that a truncation changes."""

    span: LogSpan
    segments: SegmentList
    epochs: EpochCache
    flushing: FlushTracker
    changes: FileChanges
    producers: ProducerLog


class LogCut:
    """Cuts one log; the log says when."""

    __slots__ = ("_counters", "_health", "_lower_checkpoints", "_parts")

    def __init__(
        self, parts: CutParts, health: LogHealth, counters: LogCounters, lower_checkpoints: Callable[[int], None]
    ) -> None:
        """`lower_checkpoints` lowers each line of the log in a checkpoint to at most this offset, durably."""
        self._parts, self._health, self._counters = parts, health, counters
        self._lower_checkpoints = lower_checkpoints

    def to(self, offset: int) -> None:
        """Cut every batch that holds `offset` or comes after it. The log holds the offset."""
        segments = self._parts.segments
        segment = segments.holding(offset)
        with self._health.reading():
            place = segment.place_of(offset)
        cut_at = min(place.offset, offset)
        with self._cutting(cut_at):
            segments.truncate_to(segment, place._replace(offset=cut_at))

    def to_nothing(self, next_offset: int, index_interval_bytes: int) -> None:
        """Drop every record; the next one has `next_offset`."""
        with self._cutting(0):
            self._parts.segments.start_over(next_offset, index_interval_bytes)

    @contextmanager
    def _cutting(self, offset: int) -> Iterator[None]:
        span, flushing = self._parts.span, self._parts.flushing
        span.claims_below = offset
        span.written_start = min(span.written_start, offset)  # BEFORE its line is lowered
        span.cuts += 1
        try:
            with self._health.refusing("truncate"):
                self._parts.changes.run()
                self._lower_checkpoints(offset)
                self._parts.producers.cutting(offset)
        except BaseException:
            span.claims_below = NO_LIMIT
            raise
        flushing.truncating(offset)
        try:
            with self._health.refusing("truncate"):
                yield
        finally:
            self._follow_segments(all_of_it=offset == 0)

    def _follow_segments(self, *, all_of_it: bool) -> None:
        span, segments = self._parts.span, self._parts.segments
        oldest, span.end = segments.oldest.base_offset, segments.active.next_offset
        span.start = min(max(span.start, oldest), span.end)
        self._parts.epochs.truncate_from_end(span.end if span.end > oldest else 0)
        self._parts.producers.cut(span.end, all_of_it=all_of_it)
        self._counters.truncations += 1
        self._parts.flushing.truncated()
        span.claims_below = NO_LIMIT

    def __repr__(self) -> str:
        return f"LogCut({self._parts.span})"
