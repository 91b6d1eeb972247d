"""Reads one partition's records for whoever may have them: which offsets may be asked for, and the read itself.

The event loop does not wait for a disk to read. What the page cache does not hold comes back as work for a thread
(`ColdRead`). Once that has run it is given to the same read, which takes it only if it is what would be read now: the
bounds and the log may have changed meanwhile. Not here: roles (partition.py), threads (`apis/cold_fetches.py`).
"""

from __future__ import annotations

from penstock.errors import OffsetOutOfRangeError
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.segment.cold_read import ColdRead


def check_range(log: Log, offset: int, bound: int) -> None:
    """Refuses an offset outside the log. `bound` is the end of what the fetcher may read, and goes into the error.

    An offset between `bound` and the log end is not refused. A new leader may know a lower high watermark than its
    predecessor told (KIP-207); a consumer in between waits, because an error would make it reset its position.
    """
    start = log.log_start_offset
    if not start <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} of {log.topic_partition} is outside [{start}, {bound}]: seek to a readable offset",
            log_start_offset=start,
            log_end_offset=bound,
        )


def read_batches(log: Log, fetch_offset: int, max_bytes: int, bound: int, cold: ColdRead | None) -> bytes | ColdRead:
    """Whole batches from the offset on, below the bound; or what a thread has to do first."""
    found: Records | ColdRead | None = None
    if cold is not None:
        found = log.finish_read(cold, fetch_offset, bound)
    if found is None:
        found = log.read_nowait(fetch_offset, max_bytes, bound)
    return found if isinstance(found, ColdRead) else found.records
