"""Reads one partition's records for a client or a replica: checks the offset, then reads.

The event loop does not wait for a disk to read. If the page cache lacks the bytes, the read returns work for a thread
(`ColdRead`). After a thread has run it, the caller repeats the read with it. The read takes its bytes only if they are
those that it would read now, because the bounds and the log may have changed meanwhile. Not here: roles (partition.py),
threads (`apis/fetch_sessions/cold_fetches.py`).
"""

from __future__ import annotations

from penstock.errors import OffsetOutOfRangeError
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.segment.cold_read import ColdRead


def check_range(log: Log, offset: int, bound: int) -> None:
    """Refuses an offset outside the log. `bound` is the end of what the fetcher may read, and goes into the error.

    An offset between `bound` and the log end is not refused. A new leader may know a lower high watermark than its
    predecessor gave to consumers (KIP-207). A consumer in between waits, because an error would reset its position.
    """
    start = log.log_start_offset
    if not start <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} of {log.topic_partition} is outside [{start}, {bound}]: seek to a readable offset",
            log_start_offset=start,
            log_end_offset=bound,
        )


def read_batches(
    log: Log, fetch_offset: int, max_bytes: int, bound: int, cold: ColdRead | None, *, min_one_batch: bool
) -> Records | ColdRead:
    """Whole batches from the offset on, below the bound; or the work that a thread must do first. The first batch may
    exceed `max_bytes` only with `min_one_batch`."""
    if fetch_offset >= bound:
        return Records(b"", fetch_offset)
    found = log.finish_read(cold, fetch_offset, bound) if cold is not None else None
    if found is not None:
        return found
    return log.read_nowait(fetch_offset, max_bytes, bound, min_one_batch=min_one_batch)
