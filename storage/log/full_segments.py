"""The full segments of one log: removed and replaced, at once in memory, in the directory by `run_file_changes`.

Retention and the cleaner decide which; the active segment never goes. What is removed was flushed before, by the log's
policy. Used from the log's thread, but for `run_file_changes` and `delete_expired_files`, which block.
Not here: the order of the changes in the directory, and what a crash leaves of them (file_changes.py).
"""

from __future__ import annotations

from storage.log.flush_schedule import FlushSchedule
from storage.log.log_parts import LogParts
from storage.log.log_types import CleanedSegment
from storage.segment.segment import Segment


class FullSegments:
    """The work of retention and the cleaner on one log."""

    __slots__ = ("_parts", "_schedule")

    def __init__(self, parts: LogParts, schedule: FlushSchedule) -> None:
        self._parts, self._schedule = parts, schedule

    def remove_oldest(self, count: int) -> None:
        """The `count` oldest full segments leave the log, if they are flushed; the log start is raised to fit."""
        parts, flushed_offset = self._parts, self._schedule.flushed_offset
        parts.health.must_be_writable()
        # Only flushed ones: a crash brings an unflushed one back, and it may be torn.
        flushed = sum(1 for segment in tuple(parts.segments)[:count] if segment.next_offset <= flushed_offset)
        removed = parts.segments.oldest_full(flushed)
        if removed:
            parts.producers.leaving(removed[-1].next_offset, flushed_offset, parts.changes)
        parts.changes.remove(removed)  # BEFORE the list changes: another thread may read both
        parts.segments.take(removed)
        parts.counters.removed_segments += len(removed)
        parts.flushing.segments_left()
        parts.producers.left(flushed_offset, parts.changes)
        parts.local_begins_at(parts.segments.oldest.base_offset)

    def below_local_start(self, high_watermark: int) -> int:
        """How many of the oldest full segments no read needs any more; none at or above the high watermark goes."""
        bound = min(self._parts.span.local_start, high_watermark)
        return sum(1 for segment in self._parts.segments.oldest_full(2**31) if segment.next_offset <= bound)

    def cleanable(self, below: int) -> tuple[Segment, ...]:
        """The full, flushed segments that end at or below the offset; oldest first."""
        segments, bound = self._parts.segments, min(below, self._parts.flushing.recovery_point)
        return tuple(s for s in segments if s.next_offset <= bound and s is not segments.active)

    def replace(self, cleaned: CleanedSegment, replaced: tuple[Segment, ...]) -> None:
        """Shows readers `cleaned` in place of `replaced`; CleaningAbortedError if those have changed."""
        parts = self._parts
        parts.health.must_be_writable()
        with parts.health.refusing("open a cleaned segment"):
            new = parts.segments.replace(cleaned, replaced, parts.settings.config.index_interval_bytes)
        parts.producers.cleaning(cleaned, parts.changes)
        parts.counters.replaced_segments += len(replaced)
        parts.flushing.segments_left()
        parts.changes.replace(new, replaced)
        parts.producers.left(self._schedule.flushed_offset, parts.changes)

    @property
    def has_file_changes(self) -> bool:
        return len(self._parts.changes) > 0

    def run_file_changes(self, *, sync: bool = False) -> None:
        """Carry out queued removals and replacements; with `sync`, sync the directory. Blocks, in any thread. OSError
        when the disk failed; after a shortage (`is_shortage`) it may be called again."""
        self._parts.changes.run(sync=sync)

    @property
    def has_removed_files(self) -> bool:
        """Segments were removed, and their files are still on the disk."""
        return self.has_file_changes or self._parts.changes.deleted_files > 0

    def delete_expired_files(self, now_ms: int) -> int:
        """Unlink files that were removed `file.delete.delay.ms` ago; returns how many. Blocks, in any thread."""
        count = self._parts.changes.delete_expired(now_ms, self._parts.settings.config.file_delete_delay_ms)
        self._parts.producers.files_removed()
        return count

    def delete_removed_files(self) -> int:
        """Unlinks all files that were removed, without the delay: the disk is short of room. Returns how many.
        Blocks."""
        count = self._parts.changes.delete_all()
        self._parts.producers.files_removed()
        return count

    def __repr__(self) -> str:
        return f"FullSegments({self._parts.segments!r})"
