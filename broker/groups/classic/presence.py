"""Heartbeat and LeaveGroup, and the members' part of an offset commit: signs of life, and the last one."""

from __future__ import annotations

from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.rounds import Rounds
from broker.groups.classic.states import GroupState
from broker.groups.classic.sync import check_generation
from broker.load.party_shares import NOBODY
from penstock.errors import ApiError, RebalanceInProgressError, UnknownMemberIdError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
)
from penstock.messages.groups.offsets import OffsetCommitRequest
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


class Presence:
    """Decides about Heartbeat and LeaveGroup, and whether a member may commit."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def heartbeat(self, turn: Turn, ticket: Ticket, request: HeartbeatRequest, client: Client) -> None:
        group = self._found(request.group_id)
        member = group.member(request.member_id, request.group_instance_id)
        check_generation(group, request.generation_id)
        self._rounds.restart_session(turn, group, member)
        if member.client.party == NOBODY and client[:2] == member.client[:2]:
            member.client = client  # its record does not have the party
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {group.group_id} rebalances: join again")
        turn.answer(ticket, HeartbeatResponse())

    def leave(self, turn: Turn, ticket: Ticket, request: LeaveGroupRequest, client: Client) -> None:
        """Members by their ids; static ones by their instance alone, as administrators remove them. Each has its own
        answer, also those of a group that there is not."""
        group = self._rounds.find(request.group_id)
        left = []
        for leaving in request.members:
            error = self._left(turn, group, leaving) if group is not None else _no_group(request.group_id)
            left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
        if group is not None and any(one.error is None for one in left):
            self._rounds.go_on(turn, group)
        turn.answer(ticket, LeaveGroupResponse(tuple(left)))

    def _left(self, turn: Turn, group: ClassicGroup, leaving: LeavingMember) -> ApiError | None:
        member_id, instance = leaving.member_id, leaving.group_instance_id
        if member_id in group.pending:
            self._rounds.drop_pending(group, member_id)
            return None
        if not member_id and instance is not None:
            member_id = group.static_ids.get(instance, "")
        try:
            member = group.member(member_id, instance)
        except ApiError as error:
            return error
        self._rounds.drop(turn, group, member)
        return None

    def check_commit(self, turn: Turn, group: ClassicGroup, request: OffsetCommitRequest) -> None:
        """The exact error if this sender may not commit offsets of the group now; a member's commit is a sign of life.

        A commit without a member is for a group without members. Members may commit until their new generation begins:
        so what they give up in a rebalance is committed before."""
        if request.member_epoch < 0 and group.state is GroupState.EMPTY:
            return
        if request.member_epoch < 0 and not request.member_id and request.group_instance_id is None:
            raise UnknownMemberIdError(f"group {group.group_id} has members: only these may commit its offsets")
        member = group.member(request.member_id, request.group_instance_id)
        check_generation(group, request.member_epoch)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgressError(f"group {group.group_id} rebalances: commit when it has assigned")
        self._rounds.restart_session(turn, group, member)

    def check_transactional_commit(self, group: ClassicGroup, request: TxnOffsetCommitRequest) -> None:
        """The exact error if the member that is named may not commit by a transaction. It may while the group
        rebalances, and the commit is no sign of life: it comes from a producer."""
        if request.member_epoch < 0 and group.state is GroupState.EMPTY:
            return
        group.member(request.member_id, request.group_instance_id or None)
        check_generation(group, request.member_epoch)

    def _found(self, group_id: str) -> ClassicGroup:
        if (group := self._rounds.find(group_id)) is None:
            raise _no_group(group_id)
        return group


def _no_group(group_id: str) -> UnknownMemberIdError:
    return UnknownMemberIdError(f"there is no group {group_id}: join again without an id")
