"""Deletes records at their leader: which offset its log's start may move to, and the move (KIP-107).

Not here: the wait for the followers (`broker/apis/delete_records.py`).
"""

from __future__ import annotations

from broker.replication.leader.unknown_high_watermark import unknown_high_watermark
from broker.replication.partition import Partition
from penstock.errors import OffsetOutOfRangeError, PolicyViolationError
from penstock.lazy_dataclass import dataclass
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

    -1 means the high watermark. Records that are not committed cannot be deleted, nor those of a log that is only
    compacted. A log that is neither (an empty policy) gives them up, as in Kafka (KIP-1161).
    """
    policies = log.cleanup_policy.split(",")
    if "compact" in policies and "delete" not in policies:
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


def delete_below(partition: Partition, before_offset: int) -> int:
    """Delete every record below the offset here; returns what the low watermark must reach."""
    leading, log = partition.leader_state(), partition.log
    start, policy = log.log_start_offset, log.config.cleanup_policy
    known = DeletableLog(partition.topic_partition, policy, start, partition.high_watermark, leading.epoch_start_offset)
    offset = deletion_offset(known, before_offset)
    if offset > start:
        log.advance_log_start(offset)
        partition.log_start_moved()
    return offset
