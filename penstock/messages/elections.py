"""ElectLeaders (KIP-460) and AlterPartitionReassignments (KIP-455): a broker forwards them to the active controller."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import none_if
from penstock.types import NO_LEADER, NO_OFFSET


class ElectionType(IntEnum):
    """The leaders that an operator asks for; the codes are Kafka's (KIP-460)."""

    PREFERRED = 0  # the first replica, where it is in sync
    UNCLEAN = 1  # where there is no leader, any replica in service: acked records may be lost


class NamedPartitions(NamedTuple):
    """Partitions of a topic that has this name now; none means all of them."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """`topics` is None for all partitions of all topics. `election_type` is the number that came."""

    election_type: int
    topics: tuple[NamedPartitions, ...] | None = field(default=(), metadata=none_if("all_partitions"))
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class ElectLeadersResult:
    """The leader after the election, or as it is where the error says why none was made."""

    topic: str
    partition: int
    error: ApiError | None = None
    leader_id: int = NO_LEADER


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    """The results. If partitions were not named one by one, those are left out that need no election."""

    partitions: tuple[ElectLeadersResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ReassignedPartition:
    """A partition, and the replicas that it should have; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None = field(metadata=none_if("cancel"))

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest:
    partitions: tuple[ReassignedPartition, ...] = ()
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    topic: str
    partition: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse:
    """The results, in the order of the request."""

    partitions: tuple[ReassignmentResult, ...] = ()
    metadata_offset: int = NO_OFFSET
