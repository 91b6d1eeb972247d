"""Decides which offset a deletion of records may move a log's start to (KIP-107).

Pure. `partition.py` moves the log start; `broker/apis/delete_records.py` waits for the followers.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.replication.leader.unknown_high_watermark import unknown_high_watermark
from penstock.errors import OffsetOutOfRangeError, PolicyViolationError
from penstock.types import NO_OFFSET, TopicPartition


@dataclass(frozen=True, slots=True)
class DeletableLog:
    """The facts about a leader's log that the decision needs."""

    partition: TopicPartition
    cleanup_policy: str
    log_start_offset: int
    high_watermark: int
    epoch_start_offset: int
    """The start of this leader's epoch. A high watermark below it may be lower than the one its predecessor told."""


def deletion_offset(log: DeletableLog, before_offset: int) -> int:
    """The offset below which every record is deleted; raises the typed error if that is not allowed.

    -1 means the high watermark. Records that are not committed cannot be deleted.
    """
    if "delete" not in log.cleanup_policy.split(","):
        raise PolicyViolationError(
            f"{log.partition} has cleanup.policy={log.cleanup_policy}: its records are deleted by key, not by offset."
            " Write null for a key, or add delete to cleanup.policy"
        )
    offset = log.high_watermark if before_offset == NO_OFFSET else before_offset
    unsure = log.high_watermark < log.epoch_start_offset
    if unsure and (before_offset == NO_OFFSET or log.high_watermark < offset <= log.epoch_start_offset):
        raise unknown_high_watermark(log.partition, log.high_watermark, log.epoch_start_offset)
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRangeError(
            f"records before offset {offset} of {log.partition} cannot be deleted: it must be from 0 to the high"
            f" watermark {log.high_watermark}",
            log_start_offset=log.log_start_offset,
            log_end_offset=log.high_watermark,
        )
    return offset
