"""ListGroups, DescribeGroups and DeleteGroups: groups of both protocols, as administrators see them."""

from __future__ import annotations

from enum import StrEnum

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.types import NO_EPOCH


class GroupType(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """The groups that this broker coordinates. An empty filter lets all pass; unknown words pass none."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: GroupType


@dataclass(frozen=True, slots=True)
class ListGroupsResponse:
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of either protocol. `metadata` and `assignment_bytes` are a classic group's."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    member_epoch: int = NO_EPOCH
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: tuple[TopicIdPartitions, ...] = ()
    target_assignment: tuple[TopicIdPartitions, ...] = ()
    member_type: GroupType = GroupType.CONSUMER
    """The protocol that this member speaks: a consumer group may have classic members while it moves."""
    metadata: bytes = b""
    assignment_bytes: bytes = b""
    silent_ms: int | None = None
    """The time since its coordinator last heard of it, or has loaded its group. None from a broker that does not report
    it, or while a request of the member waits there."""


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """One group; GROUP_ID_NOT_FOUND for one that there is not."""

    group_id: str
    error: ApiError | None = None
    group_type: GroupType = GroupType.CLASSIC
    state: str = ""
    """Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, Dead."""
    protocol_type: str = ""
    protocol_name: str = ""
    """The assignor."""
    group_epoch: int = NO_EPOCH
    """The generation of a classic group."""
    assignment_epoch: int = NO_EPOCH
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse:
    """The groups, in the order of the request."""

    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    group_id: str
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse:
    """The results, in the order of the request."""

    groups: tuple[DeletedGroup, ...] = ()
