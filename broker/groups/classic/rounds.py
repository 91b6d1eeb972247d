"""When a rebalance of a classic group begins and ends, and what the group's timers do.

A rebalance waits until all members have joined, the longest rebalance time-out of its members at most. The first one of
an empty group waits `group.initial.rebalance.delay.ms` instead, and the same time again for as long as members come.
Then the generation begins: dynamic members that have not joined are dropped, all others are answered, and have the
rebalance time-out to sync.

    session   a member that sent nothing for its session's time is dropped; one whose request waits here is not, unless
              it is new: nobody may be there any more to take the answer
    join      the joins of a rebalance have waited long enough
    sync      the members of a generation had time enough to sync
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.turn import Ticket, Turn
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from broker.groups.kind import GroupsOfKind
from broker.groups.records.classic_records import GroupMetadataKey
from penstock.errors import ApiError, RebalanceInProgressError, UnknownMemberIdError
from penstock.messages.groups.classic_protocol import JoinGroupResponse, SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The most that a new member waits for its first generation. Meanwhile nobody sees whether its client is still
there."""
PENDING_MAX: Final = 10_000
"""Ids that a group has handed out and that have not joined yet: clients may ask for ids and never come back."""
_CAN_REBALANCE: Final = frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY})


class Rounds:
    """The rebalances of one shard's classic groups."""

    def __init__(self, config: GroupConfig, groups: GroupsOfKind[ClassicGroup], timers: Timers[Turn]) -> None:
        self._config = config
        self._groups = groups
        self._timers = timers
        self.completed = 0
        """Generations that became stable, since the shard was loaded."""

    def find(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def restart_session(self, turn: Turn, group: ClassicGroup, member: ClassicMember) -> None:
        self.expect(turn, group, member.member_id, member.session_timeout_ms)

    def start_session(self, turn: Turn, group: ClassicGroup, member: ClassicMember) -> None:
        """Starts the session of a member that was not heard before. It changes nothing for any other."""
        if self._timers.due_ms(("session", group.group_id, member.member_id)) is None:
            self.restart_session(turn, group, member)

    def silent_ms(self, turn: Turn, group: ClassicGroup, member: ClassicMember) -> int | None:
        """The time since the member was last heard; None while its request waits here."""
        due_ms = self._timers.due_ms(("session", group.group_id, member.member_id))
        if due_ms is None or member.is_waiting:
            return None
        return max(0, turn.now_ms + member.session_timeout_ms - due_ms)

    def expect(self, turn: Turn, group: ClassicGroup, member_id: str, within_ms: int) -> None:
        """The member, or the id that was handed out, is dropped after that time."""
        group_id = group.group_id
        name = ("session", group_id, member_id)
        self._timers.set(name, turn.now_ms + within_ms, partial(self._session_ended, group_id, member_id))

    def _session_ended(self, group_id: str, member_id: str, turn: Turn) -> None:
        if (group := self.find(group_id)) is None:
            return
        if member_id in group.pending:
            self.drop_pending(group, member_id)
            self.go_on(turn, group)
        elif (member := group.members.get(member_id)) is not None and (member.is_new or not member.is_waiting):
            self.drop(turn, group, member)
            self.go_on(turn, group)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("session", group.group_id, member_id))

    def drop(self, turn: Turn, group: ClassicGroup, member: ClassicMember) -> None:
        """The member is not in the group any more. The caller goes on."""
        self.refuse(turn, group, member, UnknownMemberIdError(f"the member was removed from group {group.group_id}"))
        group.remove(member)

    def hand_out_id(self, turn: Turn, group: ClassicGroup, member_id: str, within_ms: int) -> None:
        """The id is kept for that time; the oldest one goes if there are too many, and its client asks for another."""
        if len(group.pending) >= PENDING_MAX:
            self.drop_pending(group, next(iter(group.pending)))
        group.add_pending(member_id)
        self.expect(turn, group, member_id, within_ms)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.drop_pending(member_id)
        self.end_session(group, member_id)

    def refuse(self, turn: Turn, group: ClassicGroup, member: ClassicMember, error: ApiError) -> None:
        """The member's requests that wait get the error, and its session ends."""
        for ticket in self.take_join_ticket(group, member), self.take_sync_ticket(member):
            if ticket is not None:
                turn.answer(ticket, error)
        self.end_session(group, member.member_id)

    # -- requests that wait --------------------------------------------------------------------------------------------

    def wait_for_join(self, turn: Turn, group: ClassicGroup, member: ClassicMember, ticket: Ticket) -> None:
        """A join of the same member that waits already was given up by its client."""
        if (older := self.take_join_ticket(group, member)) is not None:
            turn.answer(older, RebalanceInProgressError("the member has sent another JoinGroup since"))
        member.join_ticket = ticket
        group.joining += 1

    def wait_for_sync(self, turn: Turn, member: ClassicMember, ticket: Ticket) -> None:
        if (older := self.take_sync_ticket(member)) is not None:
            turn.answer(older, RebalanceInProgressError("the member has sent another SyncGroup since"))
        member.sync_ticket = ticket

    def take_join_ticket(self, group: ClassicGroup, member: ClassicMember) -> Ticket | None:
        ticket, member.join_ticket = member.join_ticket, None
        group.joining -= ticket is not None
        return ticket

    def take_sync_ticket(self, member: ClassicMember) -> Ticket | None:
        ticket, member.sync_ticket = member.sync_ticket, None
        return ticket

    def refuse_syncs(self, turn: Turn, group: ClassicGroup, error: ApiError) -> None:
        """Everyone who waits for this generation's assignment gets the error, and a new session."""
        for member in group.members.values():
            if (ticket := self.take_sync_ticket(member)) is not None:
                turn.answer(ticket, error)
                self.restart_session(turn, group, member)

    # -- rounds --------------------------------------------------------------------------------------------------------

    def go_on(self, turn: Turn, group: ClassicGroup) -> None:
        """Members came, left or changed: begin a rebalance, or complete the one that this was the last to wait for."""
        if group.state in _CAN_REBALANCE:
            if group.members or group.state is not GroupState.EMPTY:
                self.prepare(turn, group)
        elif group.state is GroupState.PREPARING_REBALANCE and not group.is_initial_round and group.all_joined:
            self.complete_join(turn, group)

    def prepare(self, turn: Turn, group: ClassicGroup) -> None:
        """Members learn it from their next heartbeat, commit or sync."""
        self.refuse_syncs(turn, group, RebalanceInProgressError(f"group {group.group_id} rebalances: join again"))
        self._timers.cancel(("sync", group.group_id))
        group.enter(GroupState.PREPARING_REBALANCE, turn.wall_ms)
        if group.is_initial_round:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._put_off(turn, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_joined:
            self.complete_join(turn, group)
        else:
            self._wait_for_joins(turn, group)

    def _put_off(self, turn: Turn, group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
        action = partial(self._initial_delay_over, group.group_id, delay_ms, left_ms)
        self._timers.set(("join", group.group_id), turn.now_ms + delay_ms, action)

    def _initial_delay_over(self, group_id: str, delay_ms: int, left_ms: int, turn: Turn) -> None:
        if (group := self.find(group_id)) is None or group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.new_member_added and left_ms:
            group.new_member_added = False
            next_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            self._put_off(turn, group, next_ms, max(left_ms - delay_ms, 0))
        else:
            self.complete_join(turn, group)

    def _wait_for_joins(self, turn: Turn, group: ClassicGroup) -> None:
        due_ms = turn.now_ms + group.rebalance_timeout_ms
        self._timers.set(("join", group.group_id), due_ms, partial(self._joins_waited, group.group_id))

    def _joins_waited(self, group_id: str, turn: Turn) -> None:
        if (group := self.find(group_id)) is not None and group.state is GroupState.PREPARING_REBALANCE:
            self.complete_join(turn, group)

    def complete_join(self, turn: Turn, group: ClassicGroup) -> None:
        """A generation of those who joined, and of the static members, which may come back."""
        self._timers.cancel(("join", group.group_id))
        for member in list(group.members.values()):
            if member.join_ticket is None and member.group_instance_id is None:
                self.drop(turn, group, member)
        if not group.members:
            turn.write(GroupMetadataKey(group=group.group_id), group.record_of_empty_generation(turn.wall_ms))
        elif group.elect_joined_leader():
            self._begin_generation(turn, group)
        else:
            self._wait_for_joins(turn, group)  # until somebody joins, or the sessions of all have ended

    def _begin_generation(self, turn: Turn, group: ClassicGroup) -> None:
        group.begin_generation(turn.wall_ms)
        for member in group.members.values():
            if (ticket := self.take_join_ticket(group, member)) is not None:
                turn.answer(ticket, self.joined(group, member))
            self.restart_session(turn, group, member)
            member.is_new = False
        action = partial(self._syncs_waited, group.group_id, group.generation)
        self._timers.set(("sync", group.group_id), turn.now_ms + group.rebalance_timeout_ms, action)

    def joined(self, group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
        """The present generation, as that member is told it."""
        return JoinGroupResponse(
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader or "",
            members=group.joined_members() if group.leader == member.member_id else (),
        )

    # -- syncs ---------------------------------------------------------------------------------------------------------

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member has asked for its assignment of this generation."""
        group.not_synced.discard(member.member_id)
        if not group.not_synced:
            self._timers.cancel(("sync", group.group_id))

    def _syncs_waited(self, group_id: str, generation: int, turn: Turn) -> None:
        group = self.find(group_id)
        if group is None or group.generation != generation or not group.not_synced:
            return
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            for member_id in sorted(group.not_synced):
                self.drop(turn, group, group.members[member_id])
            self.prepare(turn, group)

    def hand_out(self, turn: Turn, group: ClassicGroup) -> None:
        """The assignments are written: everyone who waits gets its own."""
        self.completed += 1
        for member in group.members.values():
            if (ticket := self.take_sync_ticket(member)) is not None:
                turn.answer(ticket, self.assigned(group, member))
                self.restart_session(turn, group, member)

    def assigned(self, group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(member.assignment, group.protocol_type, group.protocol_name)

    def forget(self, group: ClassicGroup) -> None:
        """No timer of the group goes on."""
        for name in ("join", group.group_id), ("sync", group.group_id):
            self._timers.cancel(name)
        for member_id in [*group.members, *group.pending]:
            self._timers.cancel(("session", group.group_id, member_id))
