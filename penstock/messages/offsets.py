"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: questions to the leaders of partitions.

Every partition that is asked for comes with its topic's id: `HostedPartitions.get` checks it.
"""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """One question: the offset at a time (ms), or at one of the sentinels of penstock.types."""

    partition: TopicPartition
    topic_id: str
    timestamp_ms: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest:
    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = CONSUMER_REPLICA_ID
    timeout_ms: int = 0
    """The time limit; 0: not given."""
    read_committed: bool = False
    """The end of the log is its last stable offset, and no record behind that is found."""


@dataclass(frozen=True, slots=True)
class ListOffsetsResult:
    """The answer for one partition; offset -1 when no record is that late."""

    partition: TopicPartition
    error: ApiError | None = None
    offset: int = NO_OFFSET
    timestamp_ms: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse:
    partitions: tuple[ListOffsetsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochPartition:
    """One question: where this leader epoch ends in the leader's log."""

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest:
    partitions: tuple[EpochPartition, ...]
    replica_id: int = CONSUMER_REPLICA_ID


@dataclass(frozen=True, slots=True)
class EpochPartitionResult:
    """The largest epoch not above the one asked for, -1 when not known, and its end."""

    partition: TopicPartition
    error: ApiError | None = None
    leader_epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochResponse:
    partitions: tuple[EpochPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartition:
    """Every record below `before_offset` goes; -1 is the high watermark."""

    partition: TopicPartition
    topic_id: str
    before_offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    """Deletes the records below an offset of each partition (KIP-107)."""

    partitions: tuple[DeleteRecordsPartition, ...]
    timeout_ms: int


@dataclass(slots=True)
class DeleteRecordsResult:
    """The answer for one partition; it changes until the request is answered."""

    partition: TopicPartition
    error: ApiError | None = None
    low_watermark: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteRecordsResponse:
    """The results, in the order of the request."""

    partitions: tuple[DeleteRecordsResult, ...] = ()
