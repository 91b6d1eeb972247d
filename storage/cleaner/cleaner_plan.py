"""Decides which log is cleaned next, which offsets a pass covers, and which segments are merged. Pure.

A log is *clean* below its first dirty offset and *dirty* from there on. The first dirty offset is the cleaner's
checkpoint: the end of the last pass. A segment can be cleaned if it is full, flushed and below the last stable offset,
which is the high watermark or the first record of an undecided transaction; `facts.segments` holds these. A pass takes
the dirty segments before the first one that has a record younger than min.compaction.lag.ms.

    dirty ratio = dirty bytes / (clean bytes + dirty bytes)

The order of the logs:

1. Logs above min.cleanable.dirty.ratio, or with a dirty record older than max.compaction.lag.ms; the dirtiest first. 2.
Logs whose tombstones may be removed: in a quiet topic nothing else would remove them. The last pass found the time. 3.
Logs for which this time is not known, as after a start: a pass over their batch headers finds it.

A checkpoint that lies in the log is believed. A checkpoint beyond the log's end belongs to another history, and one
below the first segment tells nothing: the log is then dirty from its first segment on. (Not from its log start: the
records below that must be cleaned too, see `batch_filter.py`.) A checkpoint above the high watermark is kept, because a
new leader or a start may set the high watermark back.

This module reads no file. Passes are done by `segment_cleaning.py`; the checkpoint's file is `cleaner_checkpoint.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.record.batch import HEADER_BYTES
from storage.cleaner.cleaner_types import NO_LIMIT, Reason, SegmentFile
from storage.log_config import LogConfig
from storage.segment.offset_index import INTERVAL_BATCHES_MAX, MAX_RELATIVE_OFFSET

INDEX_BYTES_PER_INTERVAL = 12
"""The size of a time index entry, the larger of the two kinds of entry."""


class CleanableSegment(NamedTuple):
    """A full segment. The times are functions, because they may have to be read from disk; they are called only where
    a compaction lag is configured."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp_ms: Callable[[], int]
    largest_timestamp_ms: Callable[[], int]


class KnownHorizon(NamedTuple):
    """The time at which the first tombstone below `end_offset` may be removed; NEVER_MS without tombstones."""

    horizon_ms: int
    end_offset: int


class LogFacts(NamedTuple):
    """The state of one compacted log."""

    segments: Sequence[CleanableSegment]
    """The segments that can be cleaned (full, flushed, below the last stable offset), oldest first."""
    begin_offset: int
    """The base offset of the log's first segment."""
    log_end_offset: int
    checkpoint: int | None
    horizon: KnownHorizon | None
    config: LogConfig
    held_up_bytes: int = 0
    """Bytes of the full segments behind `segments`: not flushed, not committed, or of undecided transactions."""

    @property
    def cleanable_end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.begin_offset


class Assessment(NamedTuple):
    """The clean and dirty parts of a log; `reason` says why it should be cleaned now, None that it need not be."""

    reason: Reason | None
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    warning: str | None
    held_up_bytes: int = 0
    """Dirty, but not to be cleaned yet."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    @property
    def uncleaned_ratio(self) -> float:
        """The share of dirty bytes, with those that are held up."""
        dirty_bytes = self.dirty_bytes + self.held_up_bytes
        return dirty_bytes / max(self.clean_bytes + dirty_bytes, 1)

    @property
    def urgency(self) -> tuple[int, float]:
        """The log with the largest urgency is cleaned first."""
        ranks = {Reason.TOMBSTONES: 1, Reason.UNKNOWN_HORIZON: 0}
        return (ranks.get(self.reason, 2) if self.reason is not None else -1), self.dirty_ratio


def assess(facts: LogFacts, now_ms: int) -> Assessment:
    """Finds the part of the log that is dirty, and whether the log should be cleaned now; `now_ms` is wall time."""
    first_dirty, warning = first_dirty_offset(facts)
    clean = [segment for segment in facts.segments if segment.next_offset <= first_dirty]
    dirty = _old_enough(facts.segments[len(clean) :], facts.config, now_ms)
    end = dirty[-1].next_offset if dirty else min(first_dirty, facts.cleanable_end_offset)
    assessment = Assessment(
        None,
        first_dirty,
        end,
        sum(s.size_bytes for s in clean),
        sum(s.size_bytes for s in dirty),
        warning,
        facts.held_up_bytes,
    )
    return assessment._replace(reason=_reason(assessment, dirty, facts, now_ms))


def first_dirty_offset(facts: LogFacts) -> tuple[int, str | None]:
    """The offset where the next pass begins, and a warning if the checkpoint is not believed."""
    checkpoint, begin = facts.checkpoint, facts.begin_offset
    if checkpoint is None:
        return begin, None
    if checkpoint > facts.log_end_offset:
        return begin, (
            f"the cleaner's checkpoint is {checkpoint}, but the log ends at {facts.log_end_offset}: cleaning all of it"
        )
    if checkpoint < begin:
        return begin, f"the cleaner's checkpoint is {checkpoint}, but the log begins at {begin}: cleaning all of it"
    return checkpoint, None


def _old_enough(segments: Sequence[CleanableSegment], config: LogConfig, now_ms: int) -> Sequence[CleanableSegment]:
    """The segments before the first that holds a record younger than min.compaction.lag.ms."""
    if config.min_compaction_lag_ms <= 0:
        return segments
    for at, segment in enumerate(segments):
        if segment.largest_timestamp_ms() > now_ms - config.min_compaction_lag_ms:
            return segments[:at]
    return segments


def _reason(assessment: Assessment, dirty: Sequence[CleanableSegment], facts: LogFacts, now_ms: int) -> Reason | None:
    config = facts.config
    if assessment.dirty_bytes and assessment.dirty_ratio > config.min_cleanable_dirty_ratio:
        return Reason.DIRTY
    if assessment.dirty_bytes and _is_overdue(dirty[0], config, now_ms):
        return Reason.MAX_LAG
    clean_end = min(assessment.first_dirty_offset, facts.cleanable_end_offset)
    if clean_end <= facts.begin_offset:
        return None
    if facts.horizon is None or facts.horizon.end_offset < clean_end:
        return Reason.UNKNOWN_HORIZON
    return Reason.TOMBSTONES if now_ms > facts.horizon.horizon_ms else None


def _is_overdue(segment: CleanableSegment, config: LogConfig, now_ms: int) -> bool:
    if config.max_compaction_lag_ms >= NO_LIMIT:
        return False
    first_ms = segment.first_timestamp_ms()
    return 0 <= first_ms < now_ms - config.max_compaction_lag_ms


def group_segments(segments: Sequence[SegmentFile], config: LogConfig) -> tuple[tuple[SegmentFile, ...], ...]:
    """Neighbouring segments whose present sizes fit into one. Cleaning only shrinks them, so the result fits."""
    groups: list[tuple[SegmentFile, ...]] = []
    group: tuple[SegmentFile, ...] = ()
    for segment in segments:
        if group and not _fits((*group, segment), config):
            groups.append(group)
            group = ()
        group = (*group, segment)
    return (*groups, group) if group else ()


def _fits(group: Sequence[SegmentFile], config: LogConfig) -> bool:
    size_bytes = sum(segment.size_bytes for segment in group)
    interval_bytes = min(config.index_interval_bytes, INTERVAL_BATCHES_MAX * HEADER_BYTES)
    entries = size_bytes // max(interval_bytes, 1) + 1
    return (
        size_bytes <= config.segment_bytes
        and entries * INDEX_BYTES_PER_INTERVAL <= config.segment_index_bytes
        and group[-1].next_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET
    )
