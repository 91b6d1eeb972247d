"""The core of one partition of `__consumer_offsets`: takes its records, and passes each request to the class that
decides it.

    record      by the class of its key: offsets/, or a kind of groups
    request     by its class, and where several kinds know it by the kind of the group

A group id has one kind at a time; the kinds share `groups`, and are made here: classic/ and consumer/. Pure: no I/O, no
time of its own. Not here: the driver, which appends and answers (coordination/led_shard.py), and decisions about one
group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.memory_shares import CoordinatorMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handler, KnownTopics, Ticket, Turn
from broker.coordination.watched_time import WatchedTimeKey
from broker.groups.classic.classic_groups import ClassicGroups
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.states import GroupState
from broker.groups.consumer.consumer_groups import ConsumerGroups
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import GroupSizes
from broker.groups.kind import Group, Kinds
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.committed_offsets import CommittedOffsets
from broker.groups.offsets.topic_offsets import TopicOffsets
from broker.groups.records.offset_records import OffsetCommitKey
from broker.groups.shard.group_totals import GroupCounts, GroupTotals
from broker.groups.shard.shard_groups import ShardGroups
from broker.load.party_shares import NOBODY
from penstock.errors import (
    ApiError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnsupportedVersionError,
)
from penstock.lazy_dataclass import dataclass
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

    groups: int
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
        self.groups: dict[str, Any] = {}
        classic = ClassicGroups(config, self.groups, self.timers, self._memory)
        consumer = ConsumerGroups(config, self.groups, self.timers, classic, self._memory)
        self.kinds: Kinds = {ClassicGroup: classic, ConsumerGroup: consumer}
        self._all = ShardGroups(self.groups, self.kinds)
        self.offsets = CommittedOffsets(config, self._all, self.timers, self._memory)
        self.watched = self.offsets.watched
        self._sizes = GroupSizes(self._memory.grown)
        self._is_loaded = False
        self._commits = self._loaded_rebalances = 0
        self._replays: dict[type[Any], Callable[[Any, Any], None]] = {
            **self.offsets.state.replays,
            WatchedTimeKey: self.watched.replay,
        }
        self._handlers: dict[type[Any], Handler] = {
            **self.offsets.handlers,
            ListGroupsRequest: self._list,
            DescribeGroupsRequest: self._describe,
            DeleteGroupsRequest: self._delete,
        }
        self._taken_over: dict[type[Any], dict[type[Any], Handler]] = {}
        """Handlers of a kind for its own groups: by the class of a request, then by the class of the group."""
        for group_class, kind in self.kinds.items():
            self._replays.update(kind.replays)
            self._handlers.update(kind.handlers)
            for request, handler in kind.taken_over.items():
                self._taken_over.setdefault(request, {})[group_class] = handler

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

    def replay_marker(self, marker: Marker) -> None:
        """A transaction has ended: its offsets count from now on, or are forgotten."""
        committed = self.offsets.state.replay_end(marker.producer_id, marker.is_committed)
        if self._is_loaded:
            self._commits += committed

    def loaded(self) -> Sequence[Callable[[Turn], None]]:
        """The state is whole: members have their timers, and offsets that nobody needs are looked for. In steps of some
        groups; the shard takes requests in between."""
        self._is_loaded, self._loaded_rebalances = True, self._rebalances
        groups = iter(list(self.groups.values()))
        parts = iter(lambda: list(islice(groups, LOADED_GROUPS)), [])
        return (*(partial(self._loaded, part) for part in parts), self.offsets.loaded)

    def _loaded(self, part: Sequence[Group], turn: Turn) -> None:
        there = [group for group in part if self.groups.get(group.group_id) is group]
        for group_class, kind in self.kinds.items():
            kind.loaded(turn, [group for group in there if type(group) is group_class])

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer. The state is used no more."""
        self._memory.give_up()
        counts, self._is_loaded = self.counts, False
        self._totals.retire(counts)
        return [waiting for kind in self.kinds.values() for waiting in kind.unloaded()]

    def topics_changed(self, turn: Turn, changed: frozenset[str], deleted: frozenset[str]) -> None:
        """These topics came, went, or have other partitions or racks; those of `deleted` are not there any more, or
        are there anew."""
        for kind in self.kinds.values():
            kind.image_changed(turn, changed)
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
        by_group = self._taken_over.get(type(request))
        if by_group is not None:
            group = self.groups.get(request.group_id)
            if (taken := by_group.get(type(group))) is not None:
                return taken
        found = self._handlers.get(type(request))
        if found is None:
            raise UnsupportedVersionError(f"{type(request).__name__} is no request about groups")
        return found

    def removes_another(self, request: Any, client: Client) -> bool:
        """True if the request, should it succeed, removes a member of somebody else."""
        return self._all.removes_another(request, client)

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
        """The groups of every kind, and the simple ones."""
        return tuple(dict.fromkeys((*self.groups, *self.offsets.state.group_ids())))

    # -- figures -------------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> GroupCounts:
        """The counts since the shard was loaded; zeros once its state was given up."""
        if not self._is_loaded:
            return GroupCounts()
        return GroupCounts(self._commits, self._rebalances - self._loaded_rebalances, self.offsets.removed)

    @property
    def _rebalances(self) -> int:
        """The rebalances of all kinds, those of the log that was loaded included."""
        return sum(kind.rebalances for kind in self.kinds.values())

    def facts(self, group_id: str) -> GroupFacts | None:
        """A group as metrics show it; None for one that is gone."""
        return self._all.facts(group_id) if self._is_there(group_id) else None

    def topics_of(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The committed offsets of a group, by topic."""
        return self.offsets.state.topics_of(group_id)

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that the members of a group have."""
        return self._all.held(group_id, topics)

    def statistics(self) -> ShardStatistics:
        """May be called in any thread."""
        groups, offsets = list(self.groups.values()), self.offsets.statistics()
        return ShardStatistics(
            groups=len(groups),
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
