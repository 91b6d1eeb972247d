"""Members that go: by their own word, for a while or for good, or because a deadline of theirs passed.

With the last member of the consumer protocol, a group of classic members goes back to their protocol, where it may.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Turn
from broker.groups.consumer import changes
from broker.groups.consumer.classic_members.protocol_moves import ClassicPort, downgraded, protocols_of, write_downgrade
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.member import Member, MemberState
from broker.groups.consumer.membership import known_member
from broker.groups.group_config import GroupConfig
from broker.groups.kind import GroupsOfKind
from penstock.errors import GroupIdNotFoundError
from penstock.messages.groups.consumer_protocol import (
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class Departures:
    def __init__(
        self,
        config: GroupConfig,
        groups: GroupsOfKind[ConsumerGroup],
        epochs: GroupEpochs,
        timers: Timers[Turn],
        classic: ClassicPort,
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = groups
        self._epochs = epochs
        self._classic, self._memory = classic, memory
        self.deadlines = Deadlines(timers, self._missed)

    def leave(self, turn: Turn, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self._groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFoundError(f"there is no consumer group {request.group_id}")
        member = known_member(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVES_FOR_A_WHILE:
            self._leave_for_a_while(turn, group, member)
        else:
            self.remove(turn, group, [member])
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def remove(self, turn: Turn, group: ConsumerGroup, members: Sequence[Member]) -> None:
        """Removes the members. Their partitions are free at once; others get them with their next heartbeats."""
        if self.downgrade_if_due(turn, group, {member.member_id for member in members}):
            return
        for member in members:
            self.deadlines.forget(group.group_id, member.member_id)
            changes.drop_member(turn, group.group_id, member.member_id)
        self._epochs.bump(turn, group)

    def downgrade_if_due(self, turn: Turn, group: ConsumerGroup, leaving: Collection[str] = ()) -> bool:
        """Make it a classic group of those that stay, if they all speak that protocol and may go back to it."""
        value = downgraded(self._config, group, leaving, turn.wall_ms, turn.topics)
        if value is None:
            return False
        protocols = protocols_of(group)
        for member_id in group.members:
            self.deadlines.forget(group.group_id, member_id)
        with self._memory.deciding_for(self._memory.lasting.holder_of(group.group_id)):
            write_downgrade(turn, group, value)
            self._classic.adopted(turn, self._classic.find(group.group_id), protocols)
        return True

    def _leave_for_a_while(self, turn: Turn, group: ConsumerGroup, member: Member) -> None:
        """The instance keeps what it has assigned, for its session's time; what it was to give up, it has given up."""
        away = replace(member, epoch=LEAVES_FOR_A_WHILE, state=MemberState.STABLE, revoking={})
        changes.write_current(turn, group.group_id, away)
        self.deadlines.follow(turn.now_ms, group.group_id, member, away)

    def _missed(self, turn: Turn, group_id: str, member_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and member_id in group.members:
            self.remove(turn, group, [group.members[member_id]])
