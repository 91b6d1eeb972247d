"""The consumer groups of one shard: what its requests, records, timers and topics do to them (KIP-848).

`groups` are the shard's, of both protocols, by id; only the records that `replays` takes change those of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handlers, Ticket, Turn
from broker.groups.consumer import changes, commit_checks
from broker.groups.consumer.classic_members.classic_members import ClassicMembers
from broker.groups.consumer.classic_members.protocol_moves import ClassicPort
from broker.groups.consumer.departures import Departures
from broker.groups.consumer.description import described_group
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.heartbeats import Heartbeats
from broker.groups.consumer.member import Member, session_timeout_ms
from broker.groups.consumer.replay import ConsumerReplay
from broker.groups.consumer.request_checks import check_heartbeat
from broker.groups.consumer.subscribed_topics import SubscribedTopics
from broker.groups.consumer.targets import assignor_of
from broker.groups.group_config import GroupConfig
from penstock.errors import NonEmptyGroupError
from penstock.messages.groups.consumer_protocol import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
)
from penstock.messages.groups.listing import DescribedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


class ConsumerGroups:
    def __init__(
        self,
        config: GroupConfig,
        groups: MutableMapping[str, Any],
        timers: Timers[Turn],
        classic: ClassicPort,
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = groups
        self._views = SubscribedTopics()
        epochs = GroupEpochs(config, groups, self._views, timers, memory)
        self._departures = Departures(config, groups, epochs, timers, classic, memory)
        self._heartbeats = Heartbeats(config, groups, epochs, self._departures.deadlines, classic, memory)
        self.replays: Mapping[type[Any], Callable[[Any, Any], None]] = ConsumerReplay(groups).replays
        """Functions by the class of a record's key. Each takes its record into the state."""
        self.handlers: Handlers = {ConsumerGroupHeartbeatRequest: self._heartbeat}
        self.classic_handlers = ClassicMembers(config, groups, epochs, self._departures, classic, memory).handlers
        """The requests of the classic protocol, where the group is one of this."""

    def loaded(self, turn: Turn, groups: Iterable[ConsumerGroup] | None = None) -> None:
        """Every member has its session's whole time again, and its rebalance's: it cannot have been heard meanwhile. In
        all groups, or in these."""
        deadlines = self._departures.deadlines
        for group in self._mine() if groups is None else groups:
            for member in group.members.values():
                session_ms = session_timeout_ms(self._config, member)
                deadlines.heard(turn.now_ms, group.group_id, member.member_id, session_ms)
                deadlines.follow(turn.now_ms, group.group_id, None, member)

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        """These topics came, went, or have other partitions or racks."""
        self._views.changed(self._mine(), names)

    def described(self, turn: Turn, group: ConsumerGroup) -> DescribedGroup:
        def silent_ms(member: Member) -> int:
            session_ms = session_timeout_ms(self._config, member)
            return self._departures.deadlines.silent_ms(turn.now_ms, group.group_id, member.member_id, session_ms)

        assignor = assignor_of(group, self._config.group_consumer_assignors)
        return described_group(group, turn.topics, assignor, silent_ms)

    def is_empty(self, group: ConsumerGroup) -> bool:
        return not group.members

    def state_word(self, group: ConsumerGroup) -> str:
        return group.state

    def is_subscribed(self, group: ConsumerGroup, topic: str) -> bool:
        """True if a member reads the topic: its offsets do not expire, and are not deleted."""
        return group.is_subscribed(topic)

    def check_commit(self, turn: Turn, group: ConsumerGroup, request: OffsetCommitRequest) -> None:
        commit_checks.check_commit(group, request, turn.topics)

    def check_transactional_commit(self, turn: Turn, group: ConsumerGroup, request: TxnOffsetCommitRequest) -> None:
        commit_checks.check_transactional_commit(group, request, turn.topics)

    def check_fetch(self, turn: Turn, group: ConsumerGroup, request: OffsetFetchGroup) -> None:
        commit_checks.check_fetch(group, request)

    def delete(self, turn: Turn, group: ConsumerGroup) -> None:
        """Tombstones of everything but its offsets; refused while it has members."""
        if group.members:
            raise NonEmptyGroupError(f"group {group.group_id} has members; stop them first")
        changes.drop_group(turn, group)

    def unloaded(self) -> list[tuple[Ticket, Exception]]:
        """No ticket of this protocol waits."""
        return []

    def _heartbeat(self, turn: Turn, ticket: Ticket, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        check_heartbeat(request, self._config)
        if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
            turn.answer(ticket, self._departures.leave(turn, request))
        else:
            turn.answer(ticket, self._heartbeats.beat(turn, request, client))

    def _mine(self) -> Iterator[ConsumerGroup]:
        return (group for group in self._groups.values() if isinstance(group, ConsumerGroup))

    def __repr__(self) -> str:
        return f"ConsumerGroups({sum(1 for _ in self._mine())})"
