"""JoinGroup: a member comes, comes back, or changes what it supports.

A dynamic member that comes without an id gets one, and joins with it (KIP-394). A static member that comes without an
id replaces the one that had its instance (KIP-345); if the group is stable and the choice of its protocol stays the
same, nothing rebalances and it goes on with its assignment. A leader that joins again wants a rebalance; a follower
that joins again with the same protocols is told the present generation.

Every check of a request comes before the first change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from broker.coordination.held_memory import ShardMemory, text_bytes
from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.classic.group import MEMBER_BYTES, ClassicGroup, bytes_of, chosen_protocol
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.rounds import NEW_MEMBER_JOIN_TIMEOUT_MS, Rounds
from broker.groups.classic.sizes import refusal_of
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import GROUP_BYTES
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    InvariantViolation,
    MemberIdRequiredError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import JoinGroupRequest, JoinGroupResponse


class Arrival(NamedTuple):
    """A JoinGroup that was let in."""

    turn: Turn
    ticket: Ticket
    request: JoinGroupRequest
    client: Client


class Joins:
    """Decides about JoinGroup."""

    def __init__(self, config: GroupConfig, rounds: Rounds, memory: ShardMemory) -> None:
        self._config, self._rounds, self._memory = config, rounds, memory

    def join(self, turn: Turn, ticket: Ticket, request: JoinGroupRequest, client: Client) -> None:
        self._check_session(request.session_timeout_ms)
        group = self._rounds.find(request.group_id)
        if group is None:
            if request.member_id:
                raise UnknownMemberIdError(f"there is no group {request.group_id}: join without a member id")
            _check_protocols(ClassicGroup(request.group_id), request)
            self._memory.must_have_room(GROUP_BYTES + _growth(None, request, client))
            group = self._made(turn, request.group_id)
        else:
            if (refusal := self._no_room(turn, group, request)) is not None:
                turn.answer(ticket, refusal)  # not raised: others may have been answered
                return
            _check_protocols(group, request)
            self._memory.must_have_room(_growth(group, request, client))
        arrival = Arrival(turn, ticket, request, client._replace(visibility=None))
        if not request.member_id:
            self._join_without_id(arrival, group)
        elif request.member_id in group.pending and request.group_instance_id is None:
            self._add(arrival, group, request.member_id)
        else:
            self._join_again(arrival, group)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_session(self, timeout_ms: int) -> None:
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= timeout_ms <= high:
            raise InvalidSessionTimeoutError(
                f"session.timeout.ms is {timeout_ms}: this cluster takes {low} to {high}"
                " (group.min.session.timeout.ms, group.max.session.timeout.ms)"
            )

    def _no_room(self, turn: Turn, group: ClassicGroup, request: JoinGroupRequest) -> ApiError | None:
        """The error for a member more than there may be. A group that was too large when group.max.size was lowered
        drops those who join too late."""
        limit = self._config.group_max_size
        member = group.members.get(request.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            has_room = group.joining < limit or (member is not None and member.join_ticket is not None)
        else:
            has_room = len(group.members) < limit or member is not None
        if has_room or (not request.member_id and request.group_instance_id in group.static_ids):
            return None
        if member is not None:
            self._rounds.drop(turn, group, member)
            self._rounds.go_on(turn, group)
        return GroupMaxSizeReachedError(f"group {group.group_id} has {limit} members, its most (group.max.size)")

    # -- those who come ------------------------------------------------------------------------------------------------

    def _made(self, turn: Turn, group_id: str) -> ClassicGroup:
        turn.write(GroupMetadataKey(group=group_id), GroupMetadataValue(current_state_timestamp=turn.wall_ms))
        if (group := self._rounds.find(group_id)) is None:
            raise InvariantViolation(f"the record of group {group_id} was replayed and made none")
        return group

    def _join_without_id(self, arrival: Arrival, group: ClassicGroup) -> None:
        turn, ticket, request, client = arrival
        instance = request.group_instance_id
        member_id = f"{client.client_id if instance is None else instance}-{turn.new_id()}"
        if instance is not None and (old_id := group.static_ids.get(instance)) is not None:
            self._replace(arrival, group, group.members[old_id], member_id)
        elif instance is None and request.requires_known_member_id:
            self._rounds.hand_out_id(turn, group, member_id, request.session_timeout_ms)
            error = MemberIdRequiredError("join again with the member id of this answer")
            turn.answer(ticket, JoinGroupResponse(member_id, error=error))
        else:
            self._add(arrival, group, member_id)

    def _add(self, arrival: Arrival, group: ClassicGroup, member_id: str) -> None:
        turn, ticket, request, _ = arrival
        if group.is_initial_round:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        member = _made_member(arrival, member_id)
        member.is_new = True
        group.add(member)
        self._rounds.wait_for_join(turn, group, member, ticket)
        self._rounds.expect(turn, group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rounds.go_on(turn, group)

    # -- those who are there -------------------------------------------------------------------------------------------

    def _join_again(self, arrival: Arrival, group: ClassicGroup) -> None:
        turn, ticket, request, _ = arrival
        member = group.member(request.member_id, request.group_instance_id)
        wants_rebalance = group.state is GroupState.STABLE and group.leader == member.member_id
        has_generation = group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
        if has_generation and not wants_rebalance and member.protocols == request.protocols:
            turn.answer(ticket, self._rounds.joined(group, member))  # the first answer may have been lost
            self._rounds.restart_session(turn, group, member)
            return
        group.set_protocols(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
        self._rounds.wait_for_join(turn, group, member, ticket)
        self._rounds.go_on(turn, group)

    def _replace(self, arrival: Arrival, group: ClassicGroup, old: ClassicMember, member_id: str) -> None:
        """A static member has started anew: the one before it is fenced."""
        turn, ticket, request, _ = arrival
        new = _made_member(arrival, member_id)
        members = [new if one is old else one for one in group.members.values()]
        if group.state is GroupState.STABLE and chosen_protocol(members) == group.protocol_name:
            self._go_on_with(arrival, group, old, new)
            return
        fenced = FencedInstanceIdError(f"another member has taken over {request.group_instance_id}")
        self._rounds.refuse(turn, group, old, fenced)
        group.replace(old, new)
        self._rounds.wait_for_join(turn, group, new, ticket)
        self._rounds.restart_session(turn, group, new)
        self._rounds.go_on(turn, group)

    def _go_on_with(self, arrival: Arrival, group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> None:
        """The generation stays: the new one has the assignment of the old. Its leader is told not to assign (KIP-814);
        one that does not know `skip_assignment` is told that the old one leads, so that it assigns neither."""
        turn, ticket, request, _ = arrival
        key, value = GroupMetadataKey(group=group.group_id), group.record_with(new, old, turn.wall_ms)
        if (refusal := refusal_of(self._config, key, value)) is not None:
            raise refusal
        leader_before = group.leader
        self._rounds.end_session(group, old.member_id)
        turn.write(key, value)
        member = group.members[new.member_id]
        group.set_protocols(member, request.protocols)
        self._rounds.restart_session(turn, group, member)
        answer = self._rounds.joined(group, member)
        leads = group.leader == member.member_id
        if request.may_skip_assignment:
            answer = replace(answer, skip_assignment=leads)
        elif leads:
            answer = replace(answer, leader=leader_before or "", members=())
        turn.answer(ticket, answer)


def _growth(group: ClassicGroup | None, request: JoinGroupRequest, client: Client) -> int:
    """The bytes by which the join makes the group larger. A join with an id that was handed out counts as a member's. A
    new member's id is made of its client's id, or of its instance's."""
    instance, protocols = request.group_instance_id or "", bytes_of(request.protocols)
    member_id = "" if group is None else request.member_id or group.static_ids.get(instance, "")
    member = None if group is None else group.members.get(member_id)
    if member is None:
        return MEMBER_BYTES + protocols + 2 * (text_bytes(client.client_id) + text_bytes(instance))
    return protocols - bytes_of(member.protocols) + text_bytes(client.client_id) - text_bytes(member.client.client_id)


def _check_protocols(group: ClassicGroup, request: JoinGroupRequest) -> None:
    if group.supports(request.protocol_type, request.protocols):
        return
    if not request.protocol_type or not request.protocols:
        fact = "a member must name its protocol type and one protocol at least"
    elif request.protocol_type != group.protocol_type:
        fact = f"group {group.group_id} is of type {group.protocol_type!r}, the member of {request.protocol_type!r}"
    else:
        common = sorted(name for name, count in group.support.items() if count == len(group.members))
        fact = f"all members of group {group.group_id} support {', '.join(common)}, and the one that joins does not"
    raise InconsistentGroupProtocolError(fact)


def _made_member(arrival: Arrival, member_id: str) -> ClassicMember:
    _, _, request, client = arrival
    return ClassicMember(
        member_id,
        request.group_instance_id,
        client,
        _rebalance_timeout_ms(request),
        request.session_timeout_ms,
        request.protocols,
    )


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 of Kafka's API has none: it is the session's."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
