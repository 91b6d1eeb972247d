"""The consumer groups of one shard (`GroupKind`): requests, records, timers, topics, and what others ask (KIP-848).

Only the records that `replays` takes change a group. Not here: that a request goes to the kind of its group (shard).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handlers, KnownTopics, Ticket, Turn
from broker.groups.consumer import changes, request_checks
from broker.groups.consumer.classic_members.classic_members import ClassicMembers
from broker.groups.consumer.classic_members.protocol_moves import ClassicPort
from broker.groups.consumer.departures import Departures
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.heartbeats import Heartbeats
from broker.groups.consumer.member import Assignment, Member, Owned, session_timeout_ms
from broker.groups.consumer.replay import ConsumerReplay
from broker.groups.consumer.request_checks import check_heartbeat
from broker.groups.consumer.subscribed_topics import SubscribedTopics
from broker.groups.consumer.targets import assignor_of
from broker.groups.group_config import GroupConfig
from broker.groups.kind import Groups, GroupsOfKind
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.load.party_shares import NOBODY
from penstock.errors import ApiError, NonEmptyGroupError
from penstock.messages.groups.consumer_protocol import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
    TopicIdPartitions,
)
from penstock.messages.groups.listing import DescribedGroup, GroupMember, GroupType, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition
from penstock.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE

CONSUMER_PROTOCOL = "consumer"


class ConsumerGroups:
    """The consumer groups of one shard. `groups` are all groups of the shard, of every kind."""

    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        timers: Timers[Turn],
        classic: ClassicPort,
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = own = GroupsOfKind(groups, ConsumerGroup)
        self._views = SubscribedTopics()
        epochs = GroupEpochs(config, own, self._views, timers, memory)
        self._departures = Departures(
            config=config, groups=own, epochs=epochs, timers=timers, classic=classic, memory=memory
        )
        self._heartbeats = Heartbeats(
            config=config,
            groups=own,
            epochs=epochs,
            deadlines=self._departures.deadlines,
            classic=classic,
            memory=memory,
        )
        self._replay = ConsumerReplay(own)
        self.replays: Mapping[type[Any], Callable[[Any, Any], None]] = self._replay.replays
        self.handlers: Handlers = {ConsumerGroupHeartbeatRequest: self._heartbeat}
        self.taken_over = ClassicMembers(
            config=config, groups=own, epochs=epochs, departures=self._departures, classic=classic, memory=memory
        ).handlers
        """The requests of the classic protocol."""

    @property
    def rebalances(self) -> int:
        return self._replay.epochs

    def loaded(self, turn: Turn, groups: Iterable[ConsumerGroup]) -> None:
        """Every member has its session's whole time again, and its rebalance's: it cannot have been heard meanwhile."""
        deadlines = self._departures.deadlines
        for group in groups:
            for member in group.members.values():
                session_ms = session_timeout_ms(self._config, member)
                deadlines.heard(turn.now_ms, group.group_id, member.member_id, session_ms)
                deadlines.follow(turn.now_ms, group.group_id, None, member)

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        """These topics came, went, or have other partitions or racks."""
        self._views.changed(self._groups, names)

    def described(self, turn: Turn, group: ConsumerGroup) -> DescribedGroup:
        def silent_ms(member: Member) -> int:
            session_ms = session_timeout_ms(self._config, member)
            return self._departures.deadlines.silent_ms(turn.now_ms, group.group_id, member.member_id, session_ms)

        assignor = assignor_of(group, self._config.group_consumer_assignors)
        return described_group(group, turn.topics, assignor, silent_ms)

    def is_empty(self, group: ConsumerGroup) -> bool:
        return not group.members

    def is_subscribed(self, group: ConsumerGroup, topic: str) -> bool:
        return group.is_subscribed(topic)

    def check_commit(self, turn: Turn, group: ConsumerGroup, request: OffsetCommitRequest) -> None:
        request_checks.check_commit(group, request, turn.topics)

    def check_transactional_commit(self, turn: Turn, group: ConsumerGroup, request: TxnOffsetCommitRequest) -> None:
        request_checks.check_transactional_commit(group, request, turn.topics)

    def check_fetch(self, group: ConsumerGroup, request: OffsetFetchGroup) -> None:
        request_checks.check_fetch(group, request)

    def check_offset_delete(self, group: ConsumerGroup) -> None:
        """Does nothing: the topics that its members read are known."""

    def offset_expiry(self, group: ConsumerGroup) -> OffsetExpiry | None:
        return OffsetExpiry(is_empty=not group.members)

    def listed(self, group: ConsumerGroup) -> ListedGroup:
        return ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state, GroupType.CONSUMER)

    def facts(self, group: ConsumerGroup) -> GroupFacts:
        return GroupFacts(GroupType.CONSUMER.value, group.state, len(group.members), group.epoch)

    def held(self, group: ConsumerGroup, topics: KnownTopics) -> Iterator[TopicPartition]:
        for topic_id, partitions in group.owners.items():
            topic = topics.by_id(topic_id)
            if topic is not None:
                yield from (TopicPartition(topic.name, partition) for partition in partitions)

    def holder(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> Client | None:
        member = group.members.get(member_id or group.instances.get(instance_id or "", ""))
        if member is None:
            return None
        return Client(member.client_id, member.client_host, party=group.parties.get(member.member_id, NOBODY))

    def delete(self, turn: Turn, group: ConsumerGroup) -> None:
        """Tombstones of everything but its offsets; refused while it has members."""
        if group.members:
            raise NonEmptyGroupError(f"group {group.group_id} has members; stop them first")
        changes.drop_group(turn, group)

    def unloaded(self) -> list[tuple[Ticket, ApiError]]:
        """No ticket of this protocol waits."""
        return []

    def _heartbeat(self, turn: Turn, ticket: Ticket, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        check_heartbeat(request, self._config)
        if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
            turn.answer(ticket, self._departures.leave(turn, request))
        else:
            turn.answer(ticket, self._heartbeats.beat(turn, request, client))

    def __repr__(self) -> str:
        return f"ConsumerGroups({self._groups!r})"


def described_group(
    group: ConsumerGroup, topics: KnownTopics, assignor: str, silent_ms: Callable[[Member], int]
) -> DescribedGroup:
    """`silent_ms`: the time since a member was last heard."""
    return DescribedGroup(
        group_id=group.group_id,
        group_type=GroupType.CONSUMER,
        state=group.state,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=assignor,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            replace(_described_member(group, member, topics), silent_ms=silent_ms(member))
            for member in group.members.values()
        ),
    )


def _described_member(group: ConsumerGroup, member: Member, topics: KnownTopics) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        subscribed_topic_names=tuple(sorted(member.names)),
        subscribed_topic_regex=member.regex,
        assignment=_named(member.assigned, topics),
        target_assignment=_named(group.target_of(member.member_id), topics),
        member_type=GroupType.CONSUMER if member.classic is None else GroupType.CLASSIC,
    )


def _named(partitions: Owned | Assignment, topics: KnownTopics) -> tuple[TopicIdPartitions, ...]:
    """The partitions with the names of their topics; a topic that was deleted has none, and is left out."""
    found: list[TopicIdPartitions] = []
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            found.append(TopicIdPartitions(topic_id, tuple(sorted(numbers)), topic.name))
    return tuple(sorted(found, key=lambda one: one.topic))
