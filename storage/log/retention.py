"""Decides which of a log's oldest segments go, and why: by time, by size, or because the log starts above them.

Pure; the rules are Kafka's. Segments go from the oldest on, up to the first that stays:

- no record at or above the high watermark goes, whatever its age: a follower or a new leader may still need it;
- by log start: the next segment begins at or below the log start. A log that is only compacted has no other rule;
- by size: the remaining segments have at least `retention.bytes`;
- by time: the segment's largest timestamp is older than `retention.ms`. If no record has a timestamp, the time of the
  last write counts;
- the active segment may go by time or size too, after a new one was begun behind it; an empty one stays.

`now_ms` is wall time, or None while the clock cannot be believed: then no segment goes by time.
`full_segments.py` takes the segments out of the log; the broker has the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from storage.log_config import LogConfig


class DeletionReason(Enum):
    """The reason for which a segment goes."""

    LOG_START = "the log starts above it"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentFacts(NamedTuple):
    """One segment. `time_ms` is called last, and only for the oldest segments: it may have to read from disk."""

    next_offset: int
    size_bytes: int
    time_ms: Callable[[], int]


class LogBounds(NamedTuple):
    """The offsets and sizes of a log that retention needs."""

    local_start: int
    """The first offset that is read from a segment here."""
    high_watermark: int


def expired(
    segments: Sequence[SegmentFacts], config: LogConfig, bounds: LogBounds, now_ms: int | None
) -> tuple[DeletionReason, ...]:
    """A reason for each of the oldest segments that goes, in order; `segments` has the active one last.

    If there are as many reasons as segments, the active one goes too, and a new one must be begun first.
    """
    reasons: list[DeletionReason] = []
    excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for at, segment in enumerate(segments):
        is_active = at == len(segments) - 1
        if segment.next_offset > bounds.high_watermark or (is_active and not segment.size_bytes):
            break
        reason = _reason(segment, config, excess, now_ms)
        if not is_active and segment.next_offset <= bounds.local_start:
            reason = DeletionReason.LOG_START
        if reason is None:
            break
        reasons.append(reason)
        excess -= segment.size_bytes
    return tuple(reasons)


def _reason(segment: SegmentFacts, config: LogConfig, excess: int, now_ms: int | None) -> DeletionReason | None:
    """The reason by the topic's configuration alone; `excess` is the log's size above `retention.bytes`."""
    if "delete" not in config.cleanup_policy:
        return None
    if config.retention_bytes >= 0 and excess >= segment.size_bytes:
        return DeletionReason.SIZE
    if config.retention_ms >= 0 and now_ms is not None and now_ms - segment.time_ms() > config.retention_ms:
        return DeletionReason.TIME
    return None
