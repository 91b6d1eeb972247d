"""The core of one partition of `__consumer_offsets`: takes its records, and passes each request to the class that
decides it.

    record      by the class of its key: offsets/, consumer/ or classic/
    request     by its class, and where both protocols know it by the protocol that the group speaks

A group id has one protocol at a time; the two share `groups`. Pure: no I/O, no time of its own. Not here: the driver,
which appends and answers (coordinator/), and every decision about one group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.memory_shares import NOBODY, CoordinatorMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handler, Handlers, KnownTopics, Ticket, Turn
from broker.coordination.watched_time import WatchedTimeKey
from broker.groups.classic.classic_groups import ClassicGroups
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.states import GroupState
from broker.groups.consumer.consumer_groups import ConsumerGroups
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import GroupSizes
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.committed_offsets import CommittedOffsets
from broker.groups.offsets.topic_offsets import TopicOffsets
from broker.groups.records.classic_records import GroupMetadataKey
from broker.groups.records.consumer_records import ConsumerGroupMetadataKey
from broker.groups.records.offset_records import OffsetCommitKey
from broker.groups.shard.group_totals import GroupCounts, GroupTotals
from broker.groups.shard.removals import removes_another
from broker.groups.shard.shard_groups import ShardGroups
from penstock.errors import (
    ApiError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnsupportedVersionError,
)
from penstock.messages.groups.classic_protocol import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from penstock.messages.groups.listing import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.messages.groups.offsets import OffsetCommitRequest
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.record.markers import Marker
from penstock.types import TopicPartition

LOADED_GROUPS: Final = 100
"""Groups that are looked at in one step after the load."""


_USES: Final = frozenset(
    {
        OffsetCommitRequest,
        TxnOffsetCommitRequest,
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        ConsumerGroupHeartbeatRequest,
    }
)
"""Requests of those who use a group: after one the sender holds what nobody held of it."""


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """A snapshot of one shard; `bytes` is an estimate."""

    classic_groups: int
    consumer_groups: int
    members: int
    offsets: int
    counts: GroupCounts
    bytes: int
    pending_offsets: int
    """Offsets that wait for the end of their transactions."""


class Shard:
    """The core of one partition of `__consumer_offsets`."""

    def __init__(self, config: GroupConfig, memory: CoordinatorMemory, totals: GroupTotals) -> None:
        self._memory, self._totals = ShardMemory(memory), totals
        self.timers: Timers[Turn] = Timers()
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}
        self._classic = ClassicGroups(config, self.groups, self.timers, self._memory)
        self._consumer = ConsumerGroups(config, self.groups, self.timers, self._classic, self._memory)
        self._all = ShardGroups(self.groups, self._classic, self._consumer)
        self.offsets = CommittedOffsets(config, self._all, self.timers, self._memory)
        self.watched = self.offsets.watched
        self._sizes = GroupSizes(self._memory.grown)
        self._is_loaded = False
        self._commits = self._epochs = 0
        self._replays: Mapping[type[Any], Callable[[Any, Any], None]] = {
            **self.offsets.state.replays,
            **self._consumer.replays,
            GroupMetadataKey: self._classic.replay_group,
            WatchedTimeKey: self.watched.replay,
        }
        self._handlers: Handlers = {
            **self._classic.handlers,
            **self._consumer.handlers,
            **self.offsets.handlers,
            ListGroupsRequest: self._list,
            DescribeGroupsRequest: self._describe,
            DeleteGroupsRequest: self._delete,
        }

    # -- records -------------------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        """Take a record into the state: of a decision, or of the log."""
        kind = type(key)
        if kind is OffsetCommitKey:
            if producer is None:
                self.offsets.state.replay_offset(key, value)
                self._commits += self._is_loaded and value is not None
            else:
                self.offsets.state.replay_pending(producer.producer_id, key, value)
            return
        self._replays[kind](key, value)
        self._sizes.replay(key, value)
        self._epochs += self._is_loaded and kind is ConsumerGroupMetadataKey and value is not None

    def replay_marker(self, marker: Marker) -> None:
        """A transaction has ended: its offsets count from now on, or are forgotten."""
        committed = self.offsets.state.replay_end(marker.producer_id, marker.is_committed)
        if self._is_loaded:
            self._commits += committed

    def loaded(self) -> Sequence[Callable[[Turn], None]]:
        """The state is whole: members have their timers, and offsets that nobody needs are looked for. In steps of some
        groups; the shard takes requests in between."""
        self._is_loaded = True
        groups = iter(list(self.groups.values()))
        parts = iter(lambda: list(islice(groups, LOADED_GROUPS)), [])
        return (*(partial(self._loaded, part) for part in parts), self.offsets.loaded)

    def _loaded(self, part: Sequence[ClassicGroup | ConsumerGroup], turn: Turn) -> None:
        there = [group for group in part if self.groups.get(group.group_id) is group]
        self._classic.loaded(turn, [group for group in there if isinstance(group, ClassicGroup)])
        self._consumer.loaded(turn, [group for group in there if isinstance(group, ConsumerGroup)])

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer. The state is used no more."""
        self._memory.give_up()
        counts, self._is_loaded = self.counts, False
        self._totals.retire(counts)
        return (*self._classic.unloaded(), *self._consumer.unloaded())  # type: ignore[arg-type]

    def topics_changed(self, turn: Turn, changed: frozenset[str], deleted: frozenset[str]) -> None:
        """These topics came, went, or have other partitions or racks; those of `deleted` are not there any more, or
        are there anew."""
        self._consumer.image_changed(turn, changed)
        if deleted:
            self.offsets.image_changed(turn, deleted)

    # -- requests ------------------------------------------------------------------------------------------------------

    def handle(self, turn: Turn, ticket: Ticket, request: Any, client: Client) -> None:
        """Decide on a request. An ApiError is raised before anything is written."""
        handler = self._handler(request)
        memory = self._memory
        memory.party = client.party  # as `deciding_for` does, which takes longer than a small commit
        try:
            handler(turn, ticket, request, client)
        finally:
            memory.party = NOBODY
        if type(request) in _USES:
            memory.claim(request.group_id, client.party)

    def _handler(self, request: Any) -> Handler:
        kind = type(request)
        if kind in self._classic.handlers and isinstance(self.groups.get(request.group_id), ConsumerGroup):
            return self._consumer.classic_handlers[kind]
        found = self._handlers.get(kind)
        if found is None:
            raise UnsupportedVersionError(f"{kind.__name__} is no request about groups")
        return found

    def removes_another(self, request: Any, client: Client) -> bool:
        """True if the request, should it succeed, removes a member of somebody else."""
        return removes_another(self.groups.get(request.group_id), request, client)

    def _list(self, turn: Turn, ticket: Ticket, request: ListGroupsRequest, client: Client) -> None:
        states, types = ({word.lower() for word in words} for words in (request.states, request.types))
        listed = [self._all.listed(group_id) for group_id in self.group_ids()]
        found = [
            group
            for group in listed
            if (not states or group.state.lower() in states) and (not types or group.group_type.value in types)
        ]
        turn.answer(ticket, ListGroupsResponse(tuple(found)))

    def _describe(self, turn: Turn, ticket: Ticket, request: DescribeGroupsRequest, client: Client) -> None:
        turn.answer(ticket, DescribeGroupsResponse(tuple(self._described(turn, one) for one in request.group_ids)))

    def _described(self, turn: Turn, group_id: str) -> DescribedGroup:
        if not self._is_there(group_id):
            return DescribedGroup(group_id, _not_found(group_id), state=GroupState.DEAD.value)
        return self._all.described(turn, group_id)

    def _delete(self, turn: Turn, ticket: Ticket, request: DeleteGroupsRequest, client: Client) -> None:
        turn.answer(ticket, DeleteGroupsResponse(tuple(self._deleted(turn, one) for one in request.group_ids)))

    def _deleted(self, turn: Turn, group_id: str) -> DeletedGroup:
        if not self._is_there(group_id):
            return DeletedGroup(group_id, _not_found(group_id))
        if not self._all.is_empty(group_id):
            return DeletedGroup(group_id, NonEmptyGroupError(f"group {group_id} has members; stop them first"))
        self.offsets.delete_all(turn, group_id)
        self._all.delete(turn, group_id)
        return DeletedGroup(group_id)

    def _is_there(self, group_id: str) -> bool:
        return group_id in self.groups or group_id in self.offsets.state

    def group_ids(self) -> Sequence[str]:
        """The groups of both protocols, and the simple ones."""
        return tuple(dict.fromkeys((*self.groups, *self.offsets.state.group_ids())))

    # -- figures -------------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> GroupCounts:
        """The counts since the shard was loaded; zeros once its state was given up."""
        if not self._is_loaded:
            return GroupCounts()
        rebalances = self._classic.rebalances_completed + self._epochs
        return GroupCounts(self._commits, rebalances, self.offsets.removed)

    def facts(self, group_id: str) -> GroupFacts | None:
        """A group as metrics show it; None for one that is gone."""
        if not self._is_there(group_id):
            return None
        group, listed = self.groups.get(group_id), self._all.listed(group_id)
        kind = listed.group_type.value
        if group is None:
            return GroupFacts(kind, listed.state, 0, 0)
        epoch = group.epoch if isinstance(group, ConsumerGroup) else group.generation
        return GroupFacts(kind, listed.state, len(group.members), epoch)

    def topics_of(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The committed offsets of a group, by topic."""
        return self.offsets.state.topics_of(group_id)

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that the members of a group have."""
        return self._all.held(group_id, topics)

    def statistics(self) -> ShardStatistics:
        """May be called in any thread."""
        groups, offsets = list(self.groups.values()), self.offsets.statistics()
        classic = sum(isinstance(group, ClassicGroup) for group in groups)
        return ShardStatistics(
            classic_groups=classic,
            consumer_groups=len(groups) - classic,
            members=sum(len(group.members) for group in groups),
            offsets=offsets.offsets,
            counts=self.counts,
            bytes=self._memory.bytes,
            pending_offsets=offsets.pending,
        )

    def __repr__(self) -> str:
        return f"Shard({len(self.groups)} groups, {self.offsets!r})"


def _not_found(group_id: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(f"there is no group {group_id[:64]!r}")
