"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the classic protocol of groups.

Subscriptions and assignments are bytes that the members write and read.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import NOT_ON_WIRE

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class JoinGroupProtocol:
    """An assignor's name, and the member's subscription as that assignor reads it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupRequest:
    """A member joins. The request is answered when the generation begins."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinGroupProtocol, ...]
    group_instance_id: str | None = None
    reason: str = ""
    client_id: str = ""
    """The name that its members are described with. Kafka's protocol has it in the header of every request."""
    requires_known_member_id: bool = field(default=True, metadata=NOT_ON_WIRE)
    """A member without an id gets one in the error MEMBER_ID_REQUIRED (KIP-394; version 4 of Kafka's API and later)."""
    may_skip_assignment: bool = field(default=True, metadata=NOT_ON_WIRE)
    """The client knows `skip_assignment` (version 9)."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    metadata: bytes
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """`error` stands beside `member_id` for MEMBER_ID_REQUIRED, so it is part of the answer. `members` are told to the
    leader alone, which assigns."""

    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SyncGroupRequest:
    """A member asks for its assignment. The request is answered when the leader has assigned."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    assignment: bytes
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    pass


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member that leaves, by its id, or, for a static member with an empty id, by its instance."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None = None
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    """The results, in the order of the request."""

    members: tuple[LeftMember, ...] = ()
