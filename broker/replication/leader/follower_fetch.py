"""Takes a follower's fetch at the leader: as an acknowledgement of the records below its offset, or as a complaint
about records.

Not here: the records that answer it (`Partition.read`).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from broker.replication.partition_reads import check_range, divergence
from penstock.errors import (
    BrokerIdNotRegisteredError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
    StaleBrokerEpochError,
)
from penstock.types import EpochEndOffset, OffsetAndEpoch


def check_fetcher_epoch(registered_epochs: Mapping[int, int], replica_id: int, broker_epoch: int) -> None:
    """Refuses a fetch whose broker epoch is not exactly the registered one: only a registered broker's fetch may count.

    A lower epoch belongs to an earlier process. A higher one may belong to a registration that this broker has not read
    yet, or may be invented: the fetch is refused until the registration is read.
    """
    known = registered_epochs.get(replica_id)
    if known is None:
        raise BrokerIdNotRegisteredError(f"replica id {replica_id} is not a registered broker")
    if broker_epoch < known:
        raise StaleBrokerEpochError(
            f"broker {replica_id} fetches with epoch {broker_epoch}; it is registered with {known}"
        )
    if broker_epoch > known:
        raise ReplicaNotAvailableError(
            f"broker {replica_id} fetches with epoch {broker_epoch}; the metadata here has {known} so far: try again"
        )


def note_follower_fetch(
    partition: Partition,
    replica_id: int,
    broker_epoch: int,
    position: ReplicaPosition,
    leader_epoch: int,
    now_ms: int,
) -> EpochEndOffset | None:
    """A replica fetches from `position`: returns where its history leaves this leader's, or None.

    Only if the result is None does the fetch acknowledge the records below its offset: a divergent tail is no copy
    (KIP-101).
    """
    leading, log = partition.leader_state(leader_epoch), partition.log
    if replica_id not in leading.followers:
        raise NotLeaderOrFollowerError(f"broker {replica_id} is no replica of {partition.topic_partition}")
    diverging = divergence(log, OffsetAndEpoch(position.offset, position.epoch))
    if diverging is None:
        check_range(log, position.offset, log.log_end_offset)
        leading.followers[replica_id].log_start_offset = position.log_start_offset
        leading.note_fetch(replica_id, broker_epoch, position.offset, log.log_end_offset, now_ms)
        partition.maybe_advance_high_watermark()
        partition.check_low_watermark()
        partition.reports.follower_fetched(partition, replica_id)
    return diverging


def doubt_records(partition: Partition) -> None:
    """A follower refused records: every batch is checked when it is read, also those that were written here."""
    for segment in partition.log.segments:
        segment.distrust()
