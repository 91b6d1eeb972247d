"""AlterPartition: the leaders of partitions ask the active controller to change their ISRs (KIP-497)."""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of a proposed ISR, with the broker epoch under which it last fetched (KIP-903)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AlterPartitionData:
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    """The result for one partition; without an error, the partition as it is now."""

    topic_id: str
    partition: int
    error: ApiError | None = None
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse:
    partitions: tuple[AlterPartitionResult, ...] = ()
