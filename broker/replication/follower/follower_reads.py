"""Decides whether a follower can serve a consumer at an offset (KIP-392's cases of an offset that is out of range).

    the follower, for the offset of a consumer                    answer
    below its log start                                           OFFSET_NOT_AVAILABLE
    its epochs say that the histories part (KIP-320)              OFFSET_NOT_AVAILABLE
    from its log start to its high watermark                      the records below the high watermark
    above its high watermark, for less than BEHIND_MS             it waits for the high watermark
    above its high watermark, for longer                          OFFSET_NOT_AVAILABLE

A follower never answers OFFSET_OUT_OF_RANGE, nor where histories part: the leader alone knows, and a client that got
that answer from a follower which is merely behind would lose its position. OFFSET_NOT_AVAILABLE sends it to the leader.
A consumer that comes from the leader is often ahead for a moment: the follower learns of the leader's high watermark
with its next fetch.

Pure. Not here: whether this follower may serve consumers at all (`Partition.must_be_in_sync`, `read_replicas.py`).
"""

from __future__ import annotations

from broker.replication.partition import Partition
from broker.replication.partition_reads import divergence
from penstock.errors import OffsetNotAvailableError
from penstock.types import OffsetAndEpoch

BEHIND_MS = 300
"""A follower that is in sync, and fetches, has its leader's high watermark after one round trip, or after a flush of
its disk. One that does not have it after this time is slow, and its consumers are better off at the leader."""


def is_behind(partition: Partition, position: OffsetAndEpoch, behind_ms: int) -> bool:
    """True if the consumer has to wait for the high watermark, as it has for `behind_ms`; False if the follower can
    serve it. Raises OffsetNotAvailableError if the consumer is to go to the leader."""
    log, offset = partition.log, position.offset
    if offset > partition.high_watermark:
        if behind_ms < BEHIND_MS:
            return True
        raise _not_here(partition, f"offset {offset} is above the high watermark {partition.high_watermark}")
    if offset < log.log_start_offset:
        raise _not_here(partition, f"offset {offset} is below the log start {log.log_start_offset}")
    if divergence(log, position) is not None:
        raise _not_here(partition, f"the record before offset {offset} is not of leader epoch {position.epoch}")
    return False


def _not_here(partition: Partition, why: str) -> OffsetNotAvailableError:
    return OffsetNotAvailableError(
        f"{partition.topic_partition}: at broker {partition.broker_id}, a follower, {why}; ask the leader"
    )
