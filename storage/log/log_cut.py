"""Cuts the end of one log, or all of it.

The order keeps a crash from looking like rot. The checkpoints of the log dir are lowered BEFORE any record is cut, and
until the cut has ended they claim nothing above it (`LogSpan.claims_below`), because a thread may write them at any
time. The snapshots of producers above the cut are removed BEFORE as well. Then the segments are cut. AFTER that the
log's start, end, epochs, producers and flush state follow what the segments hold: a shortage in between may leave more
than was wanted. A cut waits for the disk, on the event loop.

A log that is emptied keeps its written log start, unless it begins below that. A crash or a full disk in the middle
then leaves a log that ends below its written start, and the next start has it begin there (log.py).

Not here: the flush that makes a cut durable (log.py), and where a history leaves another one (the broker).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from storage.log.log_parts import LogParts
from storage.log.log_span import NO_LIMIT


class LogCut:
    """Cuts one log; the log says when."""

    __slots__ = ("_health", "_lower_checkpoints", "_parts")

    def __init__(self, parts: LogParts, lower_checkpoints: Callable[[int, int], None]) -> None:
        """`lower_checkpoints` lowers each line of the log in a checkpoint to at most the first offset, durably; its log
        start to at most the second."""
        self._parts, self._health, self._lower_checkpoints = parts, parts.health, lower_checkpoints

    def to(self, offset: int) -> None:
        """Cut every batch that holds `offset` or comes after it. The log holds the offset."""
        segments = self._parts.segments
        segment = segments.holding(offset)
        with self._health.reading():
            place = segment.place_of(offset)
        cut_at = min(place.offset, offset)
        with self._cutting(cut_at, cut_at):
            segments.truncate_to(segment, place._replace(offset=cut_at))

    def to_nothing(self, next_offset: int, index_interval_bytes: int) -> None:
        """Drop every record; the next one has `next_offset`."""
        with self._cutting(0, next_offset):
            self._parts.segments.start_over(next_offset, index_interval_bytes)

    @contextmanager
    def _cutting(self, offset: int, log_start: int) -> Iterator[None]:
        span, flushing = self._parts.span, self._parts.flushing
        span.claims_below, span.starts_below = offset, log_start
        span.written_start = min(span.written_start, log_start)  # BEFORE its line is lowered
        span.cuts += 1
        try:
            with self._health.refusing("truncate"):
                self._parts.changes.run()
                self._lower_checkpoints(offset, log_start)
                self._parts.producers.cutting(offset)
        except BaseException:
            span.claims_below = span.starts_below = NO_LIMIT
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
        span.start = min(max(span.local_start, oldest), span.end)
        self._parts.epochs.truncate_from_end(span.end if span.end > oldest else 0)
        self._parts.producers.cut(span.end, all_of_it=all_of_it)
        self._parts.counters.truncations += 1
        self._parts.flushing.truncated()
        span.claims_below = span.starts_below = NO_LIMIT

    def __repr__(self) -> str:
        return f"LogCut({self._parts.span})"
