"""The values that Admin returns about groups, frozen. Not here: how they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.listing import GroupType
from penstock.types import NO_EPOCH, CommittedOffset, TopicPartition

MEMBERS_NAMED_MAX = 5
NO_COORDINATOR = -1


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it."""

    group_id: str
    state: str
    """Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, Dead."""
    group_type: GroupType
    protocol_type: str
    """"consumer" for consumers; empty where a group has only committed offsets."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member, and the partitions that it has."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    member_epoch: int
    """-1 for a member of the classic protocol."""
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...]
    """The partitions that it is to have once others have given them up; as `assignment` in a stable group."""
    member_type: GroupType
    silent_ms: int | None = None
    """The time since its coordinator last heard of it; None where that is not known, or while the member waits
    there."""

    def __str__(self) -> str:
        instance = f", instance {self.group_instance_id!r}" if self.group_instance_id else ""
        return f"{self.member_id} (client {self.client_id!r} at {self.client_host}{instance})"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members, or the error of its coordinator: GroupIdNotFoundError where there is no such group."""

    group_id: str
    error: ApiError | None = None
    state: str = ""
    group_type: GroupType = GroupType.CLASSIC
    protocol_type: str = ""
    assignor: str = ""
    group_epoch: int = NO_EPOCH
    """The generation of a classic group."""
    assignment_epoch: int = NO_EPOCH
    coordinator_id: int = NO_COORDINATOR
    members: tuple[MemberDescription, ...] = ()

    def owner_of(self, partition: TopicPartition) -> MemberDescription | None:
        """The member that has the partition now."""
        return next((member for member in self.members if partition in member.assignment), None)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition that a group reads: what it has committed, the end of the log, and the member that has it."""

    committed: CommittedOffset | None
    log_end_offset: int | None
    """The last stable offset: committed records below it can be read. None with an error."""
    member_id: str | None = None
    error: ApiError | None = None

    @property
    def lag(self) -> int | None:
        """The records that are not committed; None where nothing is committed, or the end is not known."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed.offset)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A partition's committed offset before a reset, and afterwards."""

    before: CommittedOffset | None
    offset: int
    wanted: int
    """The offset that was asked for; `offset` is the nearest to it that the log has."""
    error: ApiError | None = None
    """The error for which the coordinator did not take the offset."""


def named_members(members: Iterable[MemberDescription]) -> str:
    """The first few, for a person."""
    named = [str(member) for member in members]
    more = [f"and {len(named) - MEMBERS_NAMED_MAX} more"] if len(named) > MEMBERS_NAMED_MAX else []
    return "; ".join([*named[:MEMBERS_NAMED_MAX], *more])
