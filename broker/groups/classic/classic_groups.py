"""The classic groups of one shard (`GroupKind`): requests, records, loading, and what others ask about a group.

The topics that the members of a group read are known as far as a broker can: only groups of consumers say it in bytes
that a broker can read. A group that cannot be read may read any topic: no offset of it is treated as one that nobody
needs.

Not here: which group ids there may be, and that a request goes to the kind of its group (shard).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handlers, KnownTopics, Ticket, Turn
from broker.groups.classic.group import ClassicGroup, MemberBytes
from broker.groups.classic.join import Joins
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.presence import Presence
from broker.groups.classic.rounds import Rounds
from broker.groups.classic.states import GroupState
from broker.groups.classic.sync import Syncs
from broker.groups.group_config import GroupConfig
from broker.groups.kind import Groups, GroupsOfKind
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from penstock.errors import ApiError, NonEmptyGroupError, NotCoordinatorError, RebalanceInProgressError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from penstock.messages.groups.listing import DescribedGroup, GroupMember, GroupType, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import NO_TIMESTAMP, TopicPartition
from penstock.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    MalformedConsumerProtocolError,
    assigned_partitions,
    decode_subscription,
)


class ClassicGroups:
    """The classic groups of one shard. `groups` are all groups of the shard, of every kind."""

    def __init__(self, config: GroupConfig, groups: Groups, timers: Timers[Turn], memory: ShardMemory) -> None:
        self._config = config
        self._groups = GroupsOfKind(groups, ClassicGroup)
        self._tally = MemberBytes(memory.grown)
        self._rounds = Rounds(config, self._groups, timers)
        self._presence = Presence(self._rounds)
        self.handlers: Handlers = {
            JoinGroupRequest: Joins(config, self._rounds, memory).join,
            SyncGroupRequest: Syncs(config, self._rounds, memory).sync,
            HeartbeatRequest: self._presence.heartbeat,
            LeaveGroupRequest: self._presence.leave,
        }
        self.taken_over: Handlers = {}
        self.replays: Mapping[type[Any], Callable[[Any, Any], None]] = {GroupMetadataKey: self.replay_group}

    # -- records and loading -------------------------------------------------------------------------------------------

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A group of another kind with this id gives way to a record, and not to a tombstone."""
        group = self._groups.get(key.group)
        if value is None:
            if group is not None:
                group.gone()
                self._groups.remove(group)
            return
        if group is None:
            group = ClassicGroup(key.group, self._tally)
            self._groups.put(group)
        group.replay(value)

    def loaded(self, turn: Turn, groups: Iterable[ClassicGroup]) -> None:
        """Members of a loaded group have a session's time to be heard. A stable group goes on, unless it is too large
        or came from the other protocol: then it rebalances. These groups may have had requests already."""
        for group in groups:
            for member in group.members.values():
                self._rounds.start_session(turn, group, member)
            is_over = len(group.members) > self._config.group_max_size
            if group.state is GroupState.STABLE and (is_over or group.came_from_consumer_protocol):
                self._rounds.prepare(turn, group)

    def unloaded(self) -> list[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer: the group has another coordinator."""
        error = NotCoordinatorError()
        return [(ticket, error) for group in self._groups for ticket in self._tickets(group)]

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        """Does nothing: a member that leads assigns, and sees topics for itself."""

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

    def find(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    # -- questions -----------------------------------------------------------------------------------------------------

    def is_empty(self, group: ClassicGroup) -> bool:
        return group.state is GroupState.EMPTY

    def is_subscribed(self, group: ClassicGroup, topic: str) -> bool:
        return topic in (subscribed_topics(group) or ())

    def check_commit(self, turn: Turn, group: ClassicGroup, request: OffsetCommitRequest) -> None:
        self._presence.check_commit(turn, group, request)

    def check_transactional_commit(self, turn: Turn, group: ClassicGroup, request: TxnOffsetCommitRequest) -> None:
        self._presence.check_transactional_commit(group, request)

    def check_fetch(self, group: ClassicGroup, request: OffsetFetchGroup) -> None:
        """Anybody may read the offsets of a classic group, as in Kafka."""

    def check_offset_delete(self, group: ClassicGroup) -> None:
        if group.members and subscribed_topics(group) is None:
            raise NonEmptyGroupError(f"group {group.group_id} has members, and nobody knows which topics they read")

    def offset_expiry(self, group: ClassicGroup) -> OffsetExpiry | None:
        if group.state is GroupState.EMPTY:
            since_ms = group.state_changed_ms
            return OffsetExpiry(None if since_ms == NO_TIMESTAMP else since_ms, is_empty=True)
        is_known = group.state is GroupState.STABLE and subscribed_topics(group) is not None
        return OffsetExpiry() if is_known else None

    def listed(self, group: ClassicGroup) -> ListedGroup:
        return ListedGroup(group.group_id, group.protocol_type, group.state.value, GroupType.CLASSIC)

    def facts(self, group: ClassicGroup) -> GroupFacts:
        return GroupFacts(GroupType.CLASSIC.value, group.state.value, len(group.members), group.generation)

    def held(self, group: ClassicGroup, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that members have, as far as their assignments can be read."""
        for member in group.members.values():
            yield from assigned_partitions(member.assignment)

    def holder(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> Client | None:
        member = group.members.get(member_id or group.static_ids.get(instance_id or "", ""))
        return None if member is None else member.client

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
    def rebalances(self) -> int:
        """Generations that became stable here."""
        return self._rounds.completed

    @property
    def member_bytes(self) -> int:
        """An estimate of the memory of all members, also of those that stand in no record yet."""
        return self._tally.bytes

    def _tickets(self, group: ClassicGroup) -> list[Ticket]:
        """The requests that wait; they wait no more."""
        return [
            ticket
            for member in group.members.values()
            for ticket in (self._rounds.take_join_ticket(group, member), self._rounds.take_sync_ticket(member))
            if ticket is not None
        ]

    def __repr__(self) -> str:
        return f"ClassicGroups({self._groups!r})"


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


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of the present generation read; None if they are not known. A group without members
    reads none."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.protocol_name is None:
        return None
    if group.topics is None:
        group.topics = _read(group, group.protocol_name)
    return group.topics


def _read(group: ClassicGroup, protocol: str) -> frozenset[str] | None:
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(decode_subscription(member.metadata_of(protocol)).topics)
    except MalformedConsumerProtocolError:
        return None
    return frozenset(topics)
