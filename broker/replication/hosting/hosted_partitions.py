"""The table of this broker's replicas: each is here in one entry, in one state.

Only the table, its look-ups, and the error, with its remedy, for a request that names a partition which is not served
here. `PartitionLookup` is the part that the request path may see. replica_states.py has the states; partition_opener.py
gives replicas their partitions, replica_roles.py their roles; lost_replicas.py knows which cannot be served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from broker.replication.hosting.replica_states import HostingState, Replica
from broker.replication.partition import Partition
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from penstock.types import LeaderHint, TopicPartition

_SHOWN_CHARACTERS = 64
"""Limit for the shown characters of a topic id that a client made up."""


def unknown_partition(
    broker_id: int,
    partition: TopicPartition,
    topic_id: str,
    *,
    hosted_id: str | None,
    assigned_id: str | None,
    why_lost: Exception | None,
    moved: LeaderHint | None = None,
) -> ApiError:
    """The error for a request that names `topic_id`.

    `hosted_id` is the topic id of the hosted partition with that name, and `assigned_id` the one in the metadata; None
    if it has no such partition. `why_lost` is why the replica's log cannot be used; None if it is only still to be
    created. `moved` is the leader of a partition whose replica was here, when it went. A client must not take a
    partition whose disk failed for one that does not exist, nor one whose log is still to be created: the metadata has
    told of its leader already (Kafka's word for that is NOT_LEADER_OR_FOLLOWER, too).
    """
    if not topic_id:
        return InvalidRequestError(f"{partition}: the topic id is missing; take it from Metadata")
    if assigned_id == topic_id and why_lost is not None:
        return KafkaStorageError(f"{partition} is offline on broker {broker_id}: {why_lost}")
    if assigned_id == topic_id:
        return NotLeaderOrFollowerError(
            f"{partition} is not open on broker {broker_id}: its log is still to be created; ask again"
        )
    if hosted_id is None and moved is not None and moved.topic_id == topic_id:
        return NotLeaderOrFollowerError(f"{partition} was moved away from broker {broker_id}", leader=moved)
    known = f"there its id is {hosted_id}" if hosted_id is not None else "it is not there"
    return UnknownTopicIdError(
        f"broker {broker_id} has no {partition} of topic id {topic_id[:_SHOWN_CHARACTERS]!r}: {known};"
        " refresh the metadata"
    )


class PartitionLookup(Protocol):
    """Looks up the partition that a request names."""

    def find(self, partition: TopicPartition) -> Partition | None:
        """The hosted partition of that name, of whichever topic; None without one."""
        ...

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        """The hosted partition of exactly that topic, or the typed error for the client."""
        ...


class HostedPartitions:
    """The table of this broker's replicas. There is one per broker, changed on the event loop; `all` and `replicas` may
    be called in any thread."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self._replicas: dict[TopicPartition, Replica] = {}
        self._partitions: dict[TopicPartition, Partition] = {}
        """The partitions of those replicas that have one; the replicas alone change it."""
        self._subscribers: list[Callable[[], None]] = []

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` whenever a replica goes into another state, at the beginning of that: it takes its partition
        or its role afterwards, in the same turn of the loop."""
        self._subscribers.append(changed)

    def _changed(self) -> None:
        for changed in self._subscribers:
            changed()

    # -- partitions ----------------------------------------------------------------------------------------------------

    def find(self, partition: TopicPartition) -> Partition | None:
        return self._partitions.get(partition)

    @property
    def by_name(self) -> Mapping[tuple[str, int], Partition]:
        """The hosted partitions, which a plain tuple of a topic's name and a number finds as well: for many at once."""
        return cast("Mapping[tuple[str, int], Partition]", self._partitions)

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        """The hosted partition of exactly that topic, or the typed error that a client may retry after new metadata.

        Every request that names a partition comes through here, a follower's too. A name alone is not enough: the topic
        may have been deleted and created again, and this node or the sender may not know it yet.
        """
        found = self._partitions.get(partition)
        if found is not None and found.topic_id == topic_id:
            return found
        replica = self._replicas.get(partition) or Replica(partition)
        raise unknown_partition(
            self.broker_id,
            partition,
            topic_id,
            hosted_id=found.topic_id if found is not None else None,
            assigned_id=replica.assignment.topic_id if replica.assignment is not None else None,
            why_lost=replica.lost.why if replica.lost is not None else None,
            moved=replica.moved,
        )

    def all(self) -> tuple[Partition, ...]:
        return tuple(self._partitions.values())

    # -- replicas ------------------------------------------------------------------------------------------------------

    def replica(self, key: TopicPartition) -> Replica | None:
        return self._replicas.get(key)

    def known(self, key: TopicPartition) -> Replica:
        """The replica; it is in the table from now on."""
        replica = self._replicas.get(key)
        if replica is None:
            replica = self._replicas[key] = Replica(key, self._partitions, self._changed)
        return replica

    def state(self, key: TopicPartition) -> HostingState:
        replica = self._replicas.get(key)
        return replica.state if replica is not None else HostingState.ABSENT

    def replicas(self) -> tuple[Replica, ...]:
        return tuple(self._replicas.values())

    def tidy(self, replica: Replica) -> None:
        """Forget the replica, if it is not here and there is nothing to tell of it."""
        is_empty = replica.state is HostingState.ABSENT and replica.assignment is None and replica.moved is None
        if is_empty and self._replicas.get(replica.key) is replica:
            del self._replicas[replica.key]

    def __repr__(self) -> str:
        return f"HostedPartitions(broker {self.broker_id}, {len(self._replicas)} replicas)"
