"""Decides which log is cleaned next, from where to where, and which of its segments become one. Pure.

A log is *clean* below its first dirty offset (the cleaner's checkpoint: the last pass ended there) and *dirty* from
there on. Only full segments are cleaned that are flushed and below the high watermark, and of the dirty ones only those
before the first that has a record younger than min.compaction.lag.ms; `facts.segments` holds the former.

    dirty ratio = dirty bytes / (clean bytes + dirty bytes)

Logs above min.cleanable.dirty.ratio, or with a dirty record older than max.compaction.lag.ms, go first, the dirtiest
before the others. Then those whose tombstones may go, which of a quiet topic nothing else would take out; when that is,
the last pass has said. After a start nobody knows it: last come the logs whose headers must be asked for it.

A checkpoint is believed if it lies in the log. One beyond the log's end is of another history, one below the first
segment says nothing: the log is dirty from its first segment on. (Not from the log's start: what is below has to be
cleaned along, see `batch_filter.py`.) One above the high watermark is kept, for a leader or a start sets that back.

Not here: reading anything, the checkpoint's file, doing it (`cleaner.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from storage.cleaner.cleaner_types import NO_LIMIT, Reason, SegmentFile
from storage.log_config import LogConfig
from storage.segment.offset_index import MAX_RELATIVE_OFFSET

INDEX_BYTES_PER_INTERVAL = 12
"""An entry of a time index, the larger of the two."""


class SegmentFacts(NamedTuple):
    """A full segment. The times are asked only where a lag is configured: the answer may have to be read from disk."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp_ms: Callable[[], int]
    largest_timestamp_ms: Callable[[], int]


class KnownHorizon(NamedTuple):
    """When the first of the tombstones may go that are below an offset; NEVER_MS where there are none."""

    horizon_ms: int
    end_offset: int


class LogFacts(NamedTuple):
    """What is known of one compacted log."""

    segments: Sequence[SegmentFacts]
    """The full ones that are flushed and below the high watermark, oldest first."""
    begin_offset: int
    """Of the first segment that there is."""
    log_end_offset: int
    checkpoint: int | None
    horizon: KnownHorizon | None
    config: LogConfig

    @property
    def cleanable_end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.begin_offset


class Assessment(NamedTuple):
    """How a log stands, and why it should be cleaned, if so."""

    reason: Reason | None
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    warning: str | None

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    @property
    def urgency(self) -> tuple[int, float]:
        """The largest goes first."""
        ranks = {Reason.TOMBSTONES: 1, Reason.UNKNOWN_HORIZON: 0}
        return (ranks.get(self.reason, 2) if self.reason is not None else -1), self.dirty_ratio


def assess(facts: LogFacts, now_ms: int) -> Assessment:
    """Where the log is dirty, and whether it is its turn; `now_ms` is wall time."""
    first_dirty, warning = first_dirty_offset(facts)
    clean = [segment for segment in facts.segments if segment.next_offset <= first_dirty]
    dirty = _old_enough(facts.segments[len(clean) :], facts.config, now_ms)
    end = dirty[-1].next_offset if dirty else min(first_dirty, facts.cleanable_end_offset)
    assessment = Assessment(
        None, first_dirty, end, sum(s.size_bytes for s in clean), sum(s.size_bytes for s in dirty), warning
    )
    return assessment._replace(reason=_reason(assessment, dirty, facts, now_ms))


def first_dirty_offset(facts: LogFacts) -> tuple[int, str | None]:
    """Where the next pass has to begin, and a warning where the checkpoint is not believed."""
    checkpoint, begin = facts.checkpoint, facts.begin_offset
    if checkpoint is None:
        return begin, None
    if checkpoint > facts.log_end_offset:
        return begin, f"cleaned up to offset {checkpoint}, but the log ends at {facts.log_end_offset}: cleaning it all"
    if checkpoint < begin:
        return begin, f"cleaned up to offset {checkpoint}, but the log begins at {begin}: cleaning it all"
    return checkpoint, None


def _old_enough(segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> Sequence[SegmentFacts]:
    """The segments before the first that holds a record younger than min.compaction.lag.ms."""
    if config.min_compaction_lag_ms <= 0:
        return segments
    for at, segment in enumerate(segments):
        if segment.largest_timestamp_ms() > now_ms - config.min_compaction_lag_ms:
            return segments[:at]
    return segments


def _reason(assessment: Assessment, dirty: Sequence[SegmentFacts], facts: LogFacts, now_ms: int) -> Reason | None:
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


def _is_overdue(segment: SegmentFacts, config: LogConfig, now_ms: int) -> bool:
    if config.max_compaction_lag_ms >= NO_LIMIT:
        return False
    first_ms = segment.first_timestamp_ms()
    return 0 <= first_ms < now_ms - config.max_compaction_lag_ms


def group_segments(segments: Sequence[SegmentFile], config: LogConfig) -> tuple[tuple[SegmentFile, ...], ...]:
    """Neighbours that fit into one segment, by their present sizes: they shrink, so what comes out fits as well."""
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
    entries = size_bytes // max(config.index_interval_bytes, 1) + 1
    return (
        size_bytes <= config.segment_bytes
        and entries * INDEX_BYTES_PER_INTERVAL <= config.segment_index_bytes
        and group[-1].next_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET
    )
