"""The kinds of groups of a shard: what each one answers about its own groups, and the groups of one kind among all.

A group id has one kind at a time: classic, or of consumers (KIP-848). A shard asks the kind of a group by its class,
and knows no kind by name but where it makes them (shard/shard.py). So another kind (share or streams groups) is one
more implementation of `GroupKind`. Kafka has the same port: group/Group.java. Not here: offsets, which groups of every
kind have (offsets/), and moves of a group between two kinds, which know both (consumer/classic_members/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.coordination.turn import Client, Handlers, KnownTopics, Ticket, Turn
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.offset_groups import OffsetExpiry
from penstock.errors import ApiError
from penstock.messages.groups.listing import DescribedGroup, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition


class Group(Protocol):
    """A group of any kind."""

    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, Any]:
        """The members of the group by their ids."""
        ...


Groups = MutableMapping[str, Any]
"""All groups of a shard, of every kind, by id. Replayed records alone change it."""
G = TypeVar("G", bound=Group)


class GroupsOfKind(Generic[G]):
    """The groups of one class among all groups of a shard. A group of another kind is not there."""

    __slots__ = ("_all", "_kind")

    def __init__(self, groups: Groups, kind: type[G]) -> None:
        self._all, self._kind = groups, kind

    def get(self, group_id: str) -> G | None:
        group = self._all.get(group_id)
        return group if isinstance(group, self._kind) else None

    def __getitem__(self, group_id: str) -> G:
        """The group, which the caller knows to be there and of this kind."""
        group: G = self._all[group_id]
        return group

    def __iter__(self) -> Iterator[G]:
        return (group for group in self._all.values() if isinstance(group, self._kind))

    def put(self, group: G) -> None:
        """Adds a group. It takes the place of another kind's group of its id."""
        self._all[group.group_id] = group

    def remove(self, group: G) -> None:
        del self._all[group.group_id]

    def __repr__(self) -> str:
        return f"GroupsOfKind({self._kind.__name__}, {sum(1 for _ in self)} of {len(self._all)})"


K = TypeVar("K", contravariant=True)


class GroupKind(Protocol[K]):
    """One kind of groups: its requests and records, and the questions that are asked about a group of any kind. `K` is
    the class of its groups. A question looks only, and raises Kafka's error; deciding writes into the turn."""

    @property
    def handlers(self) -> Handlers:
        """The requests of its own protocol, whatever group has the id: it makes a group, moves it, or refuses."""
        ...

    @property
    def taken_over(self) -> Handlers:
        """The requests of other protocols that it decides where the group is one of its own."""
        ...

    @property
    def replays(self) -> Mapping[type[Any], Callable[[Any, Any], None]]:
        """Functions by the class of a record's key. Each takes its record into the state. A group of another kind with
        this id gives way to a record, and not to a tombstone."""
        ...

    @property
    def rebalances(self) -> int:
        """The rebalances that its records, or its decisions, have completed here."""
        ...

    # -- the shard's life ----------------------------------------------------------------------------------------------

    def loaded(self, turn: Turn, groups: Iterable[K]) -> None:
        """These groups were loaded: their members have a session's time to be heard."""
        ...

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer. The state is used no more."""
        ...

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        """These topics came, went, or have other partitions or racks."""
        ...

    # -- offsets -------------------------------------------------------------------------------------------------------

    def check_commit(self, turn: Turn, group: K, request: OffsetCommitRequest) -> None:
        """Raises the error with which this commit is refused as a whole."""
        ...

    def check_transactional_commit(self, turn: Turn, group: K, request: TxnOffsetCommitRequest) -> None:
        """Raises the error with which this commit by a transaction is refused as a whole. It names a member."""
        ...

    def check_fetch(self, group: K, request: OffsetFetchGroup) -> None:
        """Raises the error with which nothing of the group is told."""
        ...

    def check_offset_delete(self, group: K) -> None:
        """NON_EMPTY_GROUP for a group with members whose subscriptions are not known (KIP-496)."""
        ...

    def is_subscribed(self, group: K, topic: str) -> bool:
        """True if a member reads the topic: its offsets do not expire, and are not deleted."""
        ...

    def offset_expiry(self, group: K) -> OffsetExpiry | None:
        """None while nothing of the group may expire (KIP-211)."""
        ...

    # -- administrators, metrics and the audit -------------------------------------------------------------------------

    def is_empty(self, group: K) -> bool:
        """True if the group has no members, and may be deleted."""
        ...

    def delete(self, turn: Turn, group: K) -> None:
        """Writes tombstones of everything but the group's offsets. The caller has seen that the group is empty."""
        ...

    def listed(self, group: K) -> ListedGroup: ...

    def described(self, turn: Turn, group: K) -> DescribedGroup: ...

    def facts(self, group: K) -> GroupFacts:
        """The group as metrics show it."""
        ...

    def held(self, group: K, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that its members have, as far as their topics are known."""
        ...

    def holder(self, group: K, member_id: str, instance_id: str | None) -> Client | None:
        """The sender of the member with this id, or else of the one with this instance id; None if there is none."""
        ...


Kinds = Mapping[type[Any], GroupKind[Any]]
"""The kinds of a shard, by the class of their groups."""
