"""JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4 and LeaveGroup 0 to 5 (keys 11 to 14): members of the classic
protocol of groups.

    JoinGroup   0: the session's time-out is also the rebalance's; 4: MEMBER_ID_REQUIRED (KIP-394); 5: static members;
                7: the protocol's type; 9: the leader may have nothing to assign
    SyncGroup   3: static members; 5: the protocol's type and name, which must be the group's
    LeaveGroup  3: many members, by their instances too; below, the one member's error is the request's

Errors of a request as a whole are in the `error_code` of each answer. Not here: when a join or a sync is answered
(`broker/groups/classic/`).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.groups.classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.errors import ApiError, InconsistentGroupProtocolError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.groups import classic_protocol as messages
from penstock.messages.groups.group_apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP

FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_WITH_KNOWN_IDS: Final = 4
FIRST_WITH_TYPE: Final = 7
FIRST_WITHOUT_ASSIGNMENT: Final = 9
SYNC_FIRST_WITH_TYPE: Final = 5
LEAVE_FIRST_WITH_MANY: Final = 3


def join_group(asked: Asked, body: JoinGroupRequest) -> Plan:
    version = asked.version
    request = messages.JoinGroupRequest(
        body.group_id,
        body.session_timeout_ms,
        body.session_timeout_ms if version < FIRST_WITH_REBALANCE_TIMEOUT else body.rebalance_timeout_ms,
        body.member_id,
        body.protocol_type,
        tuple(messages.JoinGroupProtocol(one.name, bytes(one.metadata)) for one in body.protocols),
        body.group_instance_id,
        body.reason or "",
        requires_known_member_id=version >= FIRST_WITH_KNOWN_IDS,
        may_skip_assignment=version >= FIRST_WITHOUT_ASSIGNMENT,
    )
    body.protocols = []  # they hold the frame, and the answer may take minutes
    joined: messages.JoinGroupResponse = yield Ask(JOIN_GROUP.name, request)
    if joined.error is not None:
        return _not_joined(asked, joined.member_id, joined.error)
    return JoinGroupResponse(
        generation_id=joined.generation_id,
        protocol_type=joined.protocol_type,
        protocol_name=_name(version, joined.protocol_name),
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.group_instance_id, metadata=one.metadata
            )
            for one in joined.members
        ],
    )


def join_group_failed(asked: Asked, body: JoinGroupRequest, error: ApiError) -> JoinGroupResponse:
    """The answer to a request that failed as a whole."""
    return _not_joined(asked, body.member_id, error)


def _not_joined(asked: Asked, member_id: str, error: ApiError) -> JoinGroupResponse:
    code = code_of(error, JOIN_GROUP.name, asked.version)
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=_name(asked.version, None))


def _name(version: int, name: str | None) -> str | None:
    """Older versions have no null for it."""
    return name or "" if version < FIRST_WITH_TYPE else name


def sync_group(asked: Asked, body: SyncGroupRequest) -> Plan:
    if asked.version >= SYNC_FIRST_WITH_TYPE and None in (body.protocol_type, body.protocol_name):
        raise InconsistentGroupProtocolError("the request must have the type and the name of the group's protocol")
    request = messages.SyncGroupRequest(
        body.group_id,
        body.generation_id,
        body.member_id,
        body.group_instance_id,
        body.protocol_type,
        body.protocol_name,
        tuple(messages.MemberAssignment(one.member_id, bytes(one.assignment)) for one in body.assignments),
    )
    synced: messages.SyncGroupResponse = yield Ask(SYNC_GROUP.name, request)
    return SyncGroupResponse(
        protocol_type=synced.protocol_type, protocol_name=synced.protocol_name, assignment=synced.assignment
    )


def heartbeat(asked: Asked, body: HeartbeatRequest) -> Plan:
    yield Ask(
        HEARTBEAT.name,
        messages.HeartbeatRequest(body.group_id, body.generation_id, body.member_id, body.group_instance_id),
    )
    return HeartbeatResponse()


def leave_group(asked: Asked, body: LeaveGroupRequest) -> Plan:
    if asked.version < LEAVE_FIRST_WITH_MANY:
        leaving: tuple[messages.LeavingMember, ...] = (messages.LeavingMember(body.member_id),)
    else:
        leaving = tuple(
            messages.LeavingMember(one.member_id, one.group_instance_id, one.reason or "") for one in body.members
        )
    answered: list[MemberResponse] = []
    for at in range(0, max(len(leaving), 1), NAMES_MAX):  # the group is checked though nobody leaves
        request = messages.LeaveGroupRequest(body.group_id, leaving[at : at + NAMES_MAX])
        left: messages.LeaveGroupResponse = yield Ask(LEAVE_GROUP.name, request)
        answered += [
            MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=code_of(one.error, LEAVE_GROUP.name, asked.version),
            )
            for one in left.members
        ]
    if asked.version < LEAVE_FIRST_WITH_MANY:
        return LeaveGroupResponse(error_code=answered[0].error_code)
    return LeaveGroupResponse(members=answered)


SERVED: Final = (
    serves(
        JoinGroupRequest,
        JoinGroupResponse,
        (0, 9),
        alone(join_group),
        failed=join_group_failed,
        bytes_max=JOIN_GROUP.limits.message_bytes,
    ),
    serves(HeartbeatRequest, HeartbeatResponse, (0, 4), alone(heartbeat)),
    serves(LeaveGroupRequest, LeaveGroupResponse, (0, 5), alone(leave_group)),
    serves(SyncGroupRequest, SyncGroupResponse, (0, 5), alone(sync_group)),
)
