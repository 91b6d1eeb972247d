"""Changes a follower's log as its leader says: appends the leader's batches, cuts, begins anew, deletes.

The high watermark stays within the log, whatever a disk refuses on the way. Nothing is durable when these return, but
for a truncation. Not here: which change is next (fetcher_core.py), and when the disk may be asked (fetcher_driver.py).
"""

from __future__ import annotations

import logging

from broker.replication.partition import Partition
from penstock.errors import KafkaStorageError
from penstock.record.batch import iter_headers
from penstock.types import NO_OFFSET
from storage.disk.disk_errors import is_shortage

_log = logging.getLogger(__name__)


def append_as_follower(
    partition: Partition, records: bytes, leader_start: int = NO_OFFSET, leader_high_watermark: int = 0
) -> bool:
    """Append the leader's batches; True when the log had to begin anew for them, at the start of a batch.

    A deletion may end inside a batch; the leader's first batch then begins below its log start. A follower that starts
    at the leader's log start, or was truncated to it, holds no record below it. Its log takes the whole batch, and its
    log start is inside the batch, as the leader's is. That is in memory only. No member of the ISR gets a batch below
    the leader's high watermark: such a batch was written some time ago.
    """
    log, end = partition.log, partition.log.log_end_offset
    first = next((header for _, header in iter_headers(records)), None)
    start = max(leader_start, log.local_log_start_offset)
    rebased = first is not None and first.base_offset < end < first.next_offset and end == start
    if rebased and first is not None:
        log.truncate_fully_and_start_at(first.base_offset)
    try:
        log.append.as_follower(records, leader_high_watermark)
    except KafkaStorageError as error:
        if is_shortage(error):
            partition.reports.append_refused(partition)
        raise
    finally:
        _bound_high_watermark(partition)
    if rebased:
        log.advance_log_start(end)
    return rebased


def advance_log_start(partition: Partition, leader_log_start_offset: int) -> None:
    """Delete what the leader deleted, but nothing above the high watermark."""
    offset = min(leader_log_start_offset, partition.high_watermark)
    if offset > partition.log.log_start_offset:
        partition.log.advance_log_start(offset)


def truncate_to(partition: Partition, offset: int) -> None:
    """Cut the log where its history leaves the leader's: below the high watermark after an unclean election."""
    if offset < partition.high_watermark:
        _log.error("%s: truncating to %d, below the high watermark %d", partition, offset, partition.high_watermark)
    _lower_high_watermark(partition, offset)  # BEFORE the cut: another thread may write a checkpoint
    try:
        partition.log.truncate_to(offset)
    finally:  # a truncation cuts whole batches, maybe below its offset
        _bound_high_watermark(partition)


def start_over_at(partition: Partition, offset: int) -> None:
    """Empty the log and begin at the leader's log start, because all records here are older."""
    _lower_high_watermark(partition, offset)
    try:
        partition.log.truncate_fully_and_start_at(offset)
    finally:  # after a shortage the log may begin there already
        _bound_high_watermark(partition)


def _lower_high_watermark(partition: Partition, offset: int) -> None:
    """The log is about to be cut there: a checkpoint may not have more."""
    partition.high_watermark = min(partition.high_watermark, offset)


def _bound_high_watermark(partition: Partition) -> None:
    """Keeps the high watermark within the log, which was changed."""
    log = partition.log
    partition.high_watermark = min(max(partition.high_watermark, log.log_start_offset), log.log_end_offset)
