"""The classic groups of one shard: requests, records, loading, and what others ask about a group.

Not here: which group ids there may be, and that a request goes to the protocol of its group (shard).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Handlers, Ticket, Turn
from broker.groups.classic.group import ClassicGroup, MemberBytes
from broker.groups.classic.join import Joins
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.presence import Presence
from broker.groups.classic.rounds import Rounds
from broker.groups.classic.states import GroupState
from broker.groups.classic.subscriptions import subscribed_topics
from broker.groups.classic.sync import Syncs
from broker.groups.group_config import GroupConfig
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from penstock.errors import ApiError, NotCoordinatorError, RebalanceInProgressError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from penstock.messages.groups.listing import DescribedGroup, GroupMember, GroupType
from penstock.messages.groups.offsets import OffsetCommitRequest
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


class ClassicGroups:
    """The classic groups of one shard. `groups` are all groups of the shard, of both protocols."""

    def __init__(
        self, config: GroupConfig, groups: MutableMapping[str, Any], timers: Timers[Turn], memory: ShardMemory
    ) -> None:
        self._config = config
        self._groups = groups
        self._tally = MemberBytes(memory.grown)
        self._rounds = Rounds(config, groups, timers)
        self._presence = Presence(self._rounds)
        self.handlers: Handlers = {
            JoinGroupRequest: Joins(config, self._rounds, memory).join,
            SyncGroupRequest: Syncs(config, self._rounds, memory).sync,
            HeartbeatRequest: self._presence.heartbeat,
            LeaveGroupRequest: self._presence.leave,
        }

    # -- records and loading -------------------------------------------------------------------------------------------

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A group of the other protocol with this id gives way to a record, and not to a tombstone."""
        group = self._rounds.find(key.group)
        if value is None:
            if group is not None:
                group.gone()
                del self._groups[key.group]
            return
        if group is None:
            group = self._groups[key.group] = ClassicGroup(key.group, self._tally)
        group.replay(value)

    def loaded(self, turn: Turn, groups: Iterable[ClassicGroup] | None = None) -> None:
        """Members of a loaded group have a session's time to be heard. A stable group goes on, unless it is too large
        or came from the other protocol: then it rebalances. All groups, or these; they may have had requests already.
        """
        for group in self._all() if groups is None else groups:
            for member in group.members.values():
                self._rounds.start_session(turn, group, member)
            is_over = len(group.members) > self._config.group_max_size
            if group.state is GroupState.STABLE and (is_over or group.came_from_consumer_protocol):
                self._rounds.prepare(turn, group)

    def unloaded(self) -> list[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer: the group has another coordinator."""
        error = NotCoordinatorError()
        return [(ticket, error) for group in self._all() for ticket in self._tickets(group)]

    def delete(self, turn: Turn, group: ClassicGroup) -> None:
        """The caller has seen that the group is empty."""
        self._rounds.forget(group)
        turn.write(GroupMetadataKey(group=group.group_id), None)

    # -- moves between the protocols -----------------------------------------------------------------------------------

    def released(self, turn: Turn, group: ClassicGroup) -> None:
        """The group becomes one of the other protocol: its timers end, and every waiting member is asked to join
        again."""
        for ticket in self._tickets(group):
            turn.answer(ticket, RebalanceInProgressError(f"group {group.group_id} moves to the consumer protocol"))
        self._rounds.forget(group)

    def adopted(
        self, turn: Turn, group: ClassicGroup, protocols: Mapping[str, tuple[JoinGroupProtocol, ...]] | None = None
    ) -> None:
        """The group was one of the other protocol, and its record was just written: its members join again. `protocols`
        are those that its classic members told; a member without them supports the one of the record."""
        for member in group.members.values():
            group.set_protocols(member, (protocols or {}).get(member.member_id, member.protocols))
            self._rounds.restart_session(turn, group, member)
        self._rounds.go_on(turn, group)

    # -- questions -----------------------------------------------------------------------------------------------------

    def is_empty(self, group: ClassicGroup) -> bool:
        return group.state is GroupState.EMPTY

    def state_word(self, group: ClassicGroup) -> str:
        return group.state.value

    def subscribed_topics(self, group: ClassicGroup) -> frozenset[str] | None:
        return subscribed_topics(group)

    def check_commit(self, turn: Turn, group: ClassicGroup, request: OffsetCommitRequest) -> None:
        self._presence.check_commit(turn, group, request)

    def check_transactional_commit(self, group: ClassicGroup, request: TxnOffsetCommitRequest) -> None:
        self._presence.check_transactional_commit(group, request)

    def described(self, turn: Turn, group: ClassicGroup) -> DescribedGroup:
        """A group that rebalances has no protocol to tell yet."""
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group.group_id,
            group_type=GroupType.CLASSIC,
            state=group.state.value,
            protocol_type=group.protocol_type,
            protocol_name=(group.protocol_name or "") if is_stable else "",
            group_epoch=group.generation,
            members=tuple(
                _described(
                    member,
                    member.metadata_of(group.protocol_name) if is_stable else b"",
                    self._rounds.silent_ms(turn, group, member),
                )
                for member in group.members.values()
            ),
        )

    @property
    def rebalances_completed(self) -> int:
        """Generations that became stable since the shard was loaded."""
        return self._rounds.completed

    @property
    def member_bytes(self) -> int:
        """An estimate of the memory of all members, also of those that stand in no record yet."""
        return self._tally.bytes

    def _all(self) -> list[ClassicGroup]:
        return [group for group in self._groups.values() if isinstance(group, ClassicGroup)]

    def _tickets(self, group: ClassicGroup) -> list[Ticket]:
        """The requests that wait; they wait no more."""
        return [
            ticket
            for member in group.members.values()
            for ticket in (self._rounds.take_join_ticket(group, member), self._rounds.take_sync_ticket(member))
            if ticket is not None
        ]

    def __repr__(self) -> str:
        return f"ClassicGroups({len(self._all())})"


def _described(member: ClassicMember, metadata: bytes, silent_ms: int | None) -> GroupMember:
    return GroupMember(
        member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client.client_id,
        client_host=member.client.client_host,
        member_type=GroupType.CLASSIC,
        metadata=metadata,
        assignment_bytes=member.assignment,
        silent_ms=silent_ms,
    )
