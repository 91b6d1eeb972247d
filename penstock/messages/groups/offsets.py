"""The committed offsets of groups: OffsetCommit, OffsetFetch and OffsetDelete.

A partition comes with its topic's id where the client knows it; an empty id means: the topic of that name.
"""

from __future__ import annotations

from dataclasses import field

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import NOT_ON_WIRE
from penstock.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetCommitPartition:
    """The next offset to read, the leader epoch of the record before it, and a text of the consumer's own."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    """A commit without a member (epoch -1, no member id) is an administrator's, or of a consumer that assigns its
    partitions itself: only an empty group takes it."""

    group_id: str
    partitions: tuple[OffsetCommitPartition, ...]
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    """The generation of a classic member."""
    group_instance_id: str | None = None
    retention_ms: int = field(default=-1, metadata=NOT_ON_WIRE)
    """The retention that versions 2 to 4 of Kafka's API have; -1: offsets.retention.minutes."""
    knows_stale_epoch: bool = field(default=True, metadata=NOT_ON_WIRE)
    """The client knows STALE_MEMBER_EPOCH (version 9 of Kafka's API and later)."""


@dataclass(frozen=True, slots=True)
class OffsetCommitResult:
    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse:
    """The results, in the order of the request."""

    partitions: tuple[OffsetCommitResult, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchGroup:
    """One group's question. `all_partitions` asks for everything that it has committed."""

    group_id: str
    partitions: tuple[TopicPartition, ...] = ()
    all_partitions: bool = False
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    """The member's epoch; -1: no member asks, and nothing is checked."""


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False
    """Offsets of transactions that are not decided yet are refused (KIP-447)."""


@dataclass(frozen=True, slots=True)
class OffsetFetchResult:
    """Offset -1: the group has committed none. One below 0 that a client of Kafka has committed is as good as none."""

    partition: TopicPartition
    error: ApiError | None = None
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    group_id: str
    error: ApiError | None = None
    partitions: tuple[OffsetFetchResult, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse:
    """The results, in the order of the request."""

    groups: tuple[GroupOffsets, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest:
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteResult:
    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse:
    """The results, in the order of the request."""

    partitions: tuple[OffsetDeleteResult, ...] = ()
