"""Decides when the active segment is full: by size, by its indexes, by the width of a relative offset, by time. Pure.

Time is what the records say, not the clock (as Kafka does where there are timestamps), so that leader and follower roll
alike. An empty segment is never full: whatever comes fits. Doing it is `Log.roll`.
"""

from __future__ import annotations

from storage.batch_validation import Placed
from storage.log_config import LogConfig
from storage.segment import Segment

MAX_RELATIVE_OFFSET = 2**31 - 1
"""An index entry has four bytes for it."""


def roll_is_due(active: Segment, placed: Placed, config: LogConfig) -> bool:
    """True when the batches must go into a new segment."""
    if not active.size_bytes:
        return False
    if active.size_bytes + placed.size_bytes > config.segment_bytes:
        return True
    if active.indexes.is_full(config.segment_index_bytes):
        return True
    if placed.next_offset - active.base_offset > MAX_RELATIVE_OFFSET:
        return True
    first_ms = active.first_timestamp_ms()
    return first_ms >= 0 and placed.headers[0].max_timestamp_ms - first_ms > config.segment_ms
