"""The result of an append, as a log tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.record.batch import BatchHeader


class AppendInfo(NamedTuple):
    """The offsets, times and bytes of an append."""

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    log_append_time_ms: int
    """The broker's time if the topic's records carry it, -1 otherwise."""
    record_count: int
    size_bytes: int
    is_duplicate: bool = False
    """The batch was in the log already; nothing was written."""

    @classmethod
    def of(cls, headers: Sequence[BatchHeader], size_bytes: int, log_append_time_ms: int) -> AppendInfo:
        """Describes the appended batches, with their final offsets."""
        first, last = headers[0], headers[-1]
        max_timestamp_ms, records = first.max_timestamp_ms, first.record_count
        for header in headers[1:]:
            max_timestamp_ms = max(max_timestamp_ms, header.max_timestamp_ms)
            records += header.record_count
        return cls(first.base_offset, last.last_offset, max_timestamp_ms, log_append_time_ms, records, size_bytes)
