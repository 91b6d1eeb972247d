"""Decides when the active segment is full: by size, by its indexes, by the width of a relative offset, by time. Pure.

Time is the records' time, not the clock's (as in Kafka where records have timestamps), so that leader and follower roll
at the same offsets. The jitter comes from the segment's name, so it is the same for both. A segment rolls only with an
append: an idle log keeps its active segment. An empty segment is never full: any append fits. `Log.roll` rolls.
"""

from __future__ import annotations

import zlib
from typing import Final

from storage.append.placing import Placed
from storage.log_config import LogConfig
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.segment import Segment

SEGMENT_BYTES_MAX = 2**31 - 1
ROOM_BYTES, ROOM_OFFSETS = 2**27, 2**24
"""Kept free in every segment: a log that rolls after its next flush takes no more meanwhile, because new bytes that are
not flushed count against `queued.max.request.bytes` (128 MiB)."""


SEGMENTS_MAX: Final = 1_000
SMALL_BYTES: Final = 2**20
"""A log with more than SEGMENTS_MAX segments rolls none that is smaller. The owner of a topic chooses when it rolls,
and may have each batch roll a segment: three files, a KiB of memory, and a look at it by each look-up of a time."""


def roll_is_due(active: Segment, placed: Placed, config: LogConfig, segments: int) -> bool:
    """True when the batches must go into a new segment; the log has so many `segments`."""
    if not active.size_bytes:
        return False
    size_bytes = active.size_bytes + placed.size_bytes
    if size_bytes > SEGMENT_BYTES_MAX - ROOM_BYTES:
        return True
    if placed.next_offset - active.base_offset > MAX_RELATIVE_OFFSET - ROOM_OFFSETS:
        return True
    if segments > SEGMENTS_MAX and active.size_bytes < SMALL_BYTES:
        return False
    if size_bytes > config.segment_bytes or active.indexes.is_full(config.segment_index_bytes):
        return True
    first_ms = active.first_timestamp_ms()
    return first_ms >= 0 and placed.headers[0].max_timestamp_ms - first_ms > life_ms(active.stem, config)


def must_roll(active: Segment, placed: Placed) -> bool:
    """True when the batches do not fit in the segment at all: its file's positions and its offsets are 31 bits wide."""
    return active.size_bytes > 0 and (
        active.size_bytes + placed.size_bytes > SEGMENT_BYTES_MAX
        or placed.next_offset - active.base_offset > MAX_RELATIVE_OFFSET
    )


def life_ms(stem: str, config: LogConfig) -> int:
    """The age at which a segment is full: segment.ms minus the segment's own share of segment.jitter.ms.

    In a compacted log it is at most max.compaction.lag.ms, because the active segment is never compacted.
    """
    longest_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compacted else config.segment_ms
    jitter_ms = min(config.segment_jitter_ms, longest_ms)
    if jitter_ms <= 0:
        return longest_ms
    name = "/".join(stem.rsplit("/", 2)[1:])  # topic-partition/base offset: not the node's own directory
    return longest_ms - zlib.crc32(name.encode()) * (jitter_ms + 1) // 2**32
