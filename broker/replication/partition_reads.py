"""Reads one partition's records for a client or a replica: where the readable part ends, checks the offset, then reads.

A replica reads to the log end, a consumer to the high watermark, and one that reads committed records to the last
stable offset: the first record of a transaction that is undecided. One whose marker is not committed yet is still
undecided, because a failover may lose that.

The event loop does not wait for a disk to read. If the page cache lacks the bytes, the read returns work for a thread
(`LaterRead`). After a thread has run it, the caller repeats the read with it. The read takes its bytes only if they are
those that it would read now, because the bounds and the log may have changed meanwhile. Not here: roles (partition.py),
threads (`leader/leader_reads.py`, and of fetch sessions `apis/fetch_sessions/cold_fetches.py`).
"""

from __future__ import annotations

from penstock.epochs import diverging_epoch
from penstock.errors import OffsetOutOfRangeError
from penstock.types import EpochEndOffset, OffsetAndEpoch
from storage.log.later_read import LaterRead
from storage.log.log import Log
from storage.log.log_reader import Records


def stable_end(log: Log, high_watermark: int) -> int:
    """The last stable offset. A deletion may have gone past the begin of a transaction that is undecided."""
    first = log.transactions.first_undecided(high_watermark)
    return high_watermark if first is None or first > high_watermark else max(first, log.log_start_offset)


def readable_end(log: Log, high_watermark: int, *, is_replica: bool, read_committed: bool) -> int:
    """Where the readable part ends."""
    if is_replica:
        return log.log_end_offset
    return stable_end(log, high_watermark) if read_committed else high_watermark


def divergence(log: Log, position: OffsetAndEpoch) -> EpochEndOffset | None:
    """Where the fetcher's history leaves this log's, or None."""
    return diverging_epoch(log.epoch_entries, log.log_end_offset, position.offset, position.epoch)


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
    log: Log, fetch_offset: int, max_bytes: int, bound: int, later: LaterRead | None, *, min_one_batch: bool
) -> Records | LaterRead:
    """Whole batches from the offset on, below the bound; or the work that a thread must do first. The first batch may
    exceed `max_bytes` only with `min_one_batch`."""
    if fetch_offset >= bound:
        return Records(b"", fetch_offset)
    found = log.reader.finish(later, fetch_offset, bound) if later is not None else None
    if found is not None:
        return found
    return log.reader.read_nowait(fetch_offset, max_bytes, bound, min_one_batch=min_one_batch)
