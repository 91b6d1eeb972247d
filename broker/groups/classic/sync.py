"""SyncGroup: the leader brings the assignments of a generation, and every member fetches its own.

The generation is written with its assignments, and is stable from then on. A member that syncs again gets its
assignment again. Assignments that do not fit (into a record, or into the memory of the leader's party) are refused for
all members, which then join again.
"""

from __future__ import annotations

from broker.coordination.held_memory import ShardMemory
from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.rounds import Rounds
from broker.groups.classic.sizes import refusal_of
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from penstock.errors import (
    ApiError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import SyncGroupRequest


class Syncs:
    """Decides about SyncGroup."""

    def __init__(self, config: GroupConfig, rounds: Rounds, memory: ShardMemory) -> None:
        self._config, self._rounds, self._memory = config, rounds, memory

    def sync(self, turn: Turn, ticket: Ticket, request: SyncGroupRequest, client: Client) -> None:
        group, member = self._checked(request)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {group.group_id} rebalances: join again")
        self._rounds.synced(group, member)
        if group.state is GroupState.STABLE:
            turn.answer(ticket, self._rounds.assigned(group, member))
            self._rounds.restart_session(turn, group, member)
            return
        self._rounds.wait_for_sync(turn, member, ticket)
        if group.leader == member.member_id:
            self._assign(turn, group, request)

    def _checked(self, request: SyncGroupRequest) -> tuple[ClassicGroup, ClassicMember]:
        if (group := self._rounds.find(request.group_id)) is None:
            raise UnknownMemberIdError(f"there is no group {request.group_id}: join again without an id")
        member = group.member(request.member_id, request.group_instance_id)
        check_generation(group, request.generation_id)
        for name, said, known in (
            ("type", request.protocol_type, group.protocol_type),
            ("name", request.protocol_name, group.protocol_name),
        ):
            if said is not None and said != known:
                raise InconsistentGroupProtocolError(
                    f"the protocol {name} of group {group.group_id} is {known!r}, and not {said!r}"
                )
        return group, member

    def _assign(self, turn: Turn, group: ClassicGroup, request: SyncGroupRequest) -> None:
        assignments = {one.member_id: one.assignment for one in request.assignments}
        key, value = GroupMetadataKey(group=group.group_id), group.record(turn.wall_ms, assignments)
        if (refusal := refusal_of(self._config, key, value) or self._no_room(group, value)) is not None:
            self._rounds.refuse_syncs(turn, group, refusal)
            self._rounds.prepare(turn, group)
            return
        turn.write(key, value)
        self._rounds.hand_out(turn, group)

    def _no_room(self, group: ClassicGroup, value: GroupMetadataValue) -> ApiError | None:
        """The error of assignments for which the party of the leader has no memory."""
        before = sum(len(member.assignment) for member in group.members.values())
        return self._memory.refusal_of(sum(len(member.assignment) for member in value.members) - before)


def check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        raise IllegalGenerationError(
            f"group {group.group_id} is at generation {group.generation}, and not {generation}: join again"
        )
