"""The table of partitions that this broker hosts, with the metadata of each.

Only the table and its look-ups. `PartitionLookup` is the part that the request path may see. partition_opener.py adds
and removes partitions; replica_roles.py has the roles.
"""

from __future__ import annotations

from typing import Protocol

from broker.replication.hosting.assignment import Assignment
from broker.replication.hosting.unknown_partition import unknown_partition
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition
from penstock.types import LeaderHint, TopicPartition


class PartitionLookup(Protocol):
    """Looks up the partition that a request names."""

    def find(self, partition: TopicPartition) -> Partition | None:
        """The hosted partition of that name, of whichever topic; None without one."""
        ...

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        """The hosted partition of exactly that topic, or the typed error for the client."""
        ...


class HostedPartitions:
    """See the module. One per broker, changed on the event loop; `all` may be called in any thread."""

    def __init__(self, lost: LostReplicas) -> None:
        """`lost` are the replicas that should be hosted here and cannot be; it is changed elsewhere."""
        self.broker_id = lost.broker_id
        self._lost = lost
        self._partitions: dict[TopicPartition, Partition] = {}
        self._assignments: dict[TopicPartition, Assignment] = {}
        self._moved: dict[TopicPartition, LeaderHint] = {}

    def find(self, partition: TopicPartition) -> Partition | None:
        return self._partitions.get(partition)

    def is_of(self, partition: TopicPartition, topic_id: str) -> bool:
        """True if a partition of exactly that topic is hosted."""
        found = self._partitions.get(partition)
        return found is not None and found.topic_id == topic_id

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        """The hosted partition of exactly that topic, or the typed error that a client may retry after new metadata.

        Every request that names a partition comes through here, a follower's too. A name alone is not enough: the topic
        may have been deleted and created again, and this node or the sender may not know it yet.
        """
        found = self._partitions.get(partition)
        if found is not None and found.topic_id == topic_id:
            return found
        assignment = self._assignments.get(partition)
        hosted_id = found.topic_id if found is not None else None
        assigned_id = assignment.topic_id if assignment is not None else None
        lost = self._lost.get(partition)
        raise unknown_partition(
            self.broker_id,
            partition,
            topic_id,
            hosted_id=hosted_id,
            assigned_id=assigned_id,
            why_lost=lost.why if lost is not None else None,
            moved=self._moved.get(partition),
        )

    def all(self) -> tuple[Partition, ...]:
        return tuple(self._partitions.values())

    def add(self, partition: Partition) -> None:
        self._partitions[partition.topic_partition] = partition

    def drop(self, partition: TopicPartition) -> None:
        self._partitions.pop(partition, None)

    def assignment(self, partition: TopicPartition) -> Assignment | None:
        """The newest metadata of the replica that this broker should host; None if it should host none."""
        return self._assignments.get(partition)

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        self._assignments[partition] = assignment
        self._moved.pop(partition, None)

    def unassign(self, partition: TopicPartition, moved: LeaderHint | None = None) -> None:
        """Its topic is deleted; or the partition lives on elsewhere, with this leader."""
        self._assignments.pop(partition, None)
        if moved is None:
            self._moved.pop(partition, None)
        else:
            self._moved[partition] = moved

    def __contains__(self, partition: object) -> bool:
        return partition in self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def __repr__(self) -> str:
        return f"HostedPartitions(broker {self.broker_id}, {len(self)} partitions)"
