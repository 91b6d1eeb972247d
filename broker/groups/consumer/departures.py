"""Members that go: by their own word, for a while or for good, or because a deadline of theirs passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.groups.consumer import changes
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.member import Member, MemberState
from broker.groups.consumer.membership import known_member
from broker.groups.timers import Timers
from broker.groups.turn import Turn
from penstock.errors import GroupIdNotFoundError
from penstock.messages.groups.consumer_protocol import (
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class Departures:
    def __init__(self, groups: Mapping[str, Any], epochs: GroupEpochs, timers: Timers[Turn]) -> None:
        self._groups = groups
        self._epochs = epochs
        self.deadlines = Deadlines(timers, self._gone, self._gone)

    def leave(self, turn: Turn, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"Consumer group {request.group_id} not found.")
        member = known_member(group, request)
        if request.member_epoch == LEAVES_FOR_A_WHILE:
            self._leave_for_a_while(turn, group, member)
        else:
            self.remove(turn, group, member)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def remove(self, turn: Turn, group: ConsumerGroup, member: Member) -> None:
        """Its partitions are free at once; the others get them with their next heartbeats."""
        self.deadlines.forget(group.group_id, member.member_id)
        changes.drop_member(turn, group.group_id, member.member_id)
        self._epochs.bump(turn, group)

    def _leave_for_a_while(self, turn: Turn, group: ConsumerGroup, member: Member) -> None:
        """The instance keeps what it has assigned, for its session's time; what it was to give up, it has given up."""
        away = replace(member, epoch=LEAVES_FOR_A_WHILE, state=MemberState.STABLE, revoking={})
        changes.write_current(turn, group.group_id, away)
        self.deadlines.follow(turn.now_ms, group.group_id, member, away)

    def _gone(self, turn: Turn, group_id: str, member_id: str) -> None:
        """A deadline passed."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            self.remove(turn, group, group.members[member_id])
