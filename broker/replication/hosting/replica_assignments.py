"""Carries out assignments of the metadata: hosts replicas, gives them their roles, and deletes those that are removed.

Called by the metadata publisher, with committed records only: a record deletes data, its absence never does. A lost
replica is revived if it may be. Any other takes its role, and is created first if it is not here. Not here: how
(replica_creation.py, replica_revival.py, replica_roles.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from broker.replication.hosting.assignment import Assignment
from broker.replication.hosting.held_replicas import HeldReplicas
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.hosting.replica_creation import ReplicaCreation
from broker.replication.hosting.replica_revival import ReplicaRevival
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.lost_replicas import LostReplicas
from metadata.registrations import BrokerRegistration
from penstock.errors import NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from penstock.types import NO_EPOCH, LeaderHint, TopicPartition
from storage.log_dirs.log_table import LogTable

_log = logging.getLogger(__name__)


class ReplicaAssignments:
    """See the module. One per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        opener: PartitionOpener,
        creation: ReplicaCreation,
        revival: ReplicaRevival,
        isrs: IsrUpkeep,
        lost: LostReplicas,
        logs: LogTable,
        held: HeldReplicas,
    ) -> None:
        """`logs` is the table of all logs in this broker's log dirs."""
        self.broker_id = hosted.broker_id
        self._hosted = hosted
        self._opener = opener
        self._creation = creation
        self._revival = revival
        self._isrs = isrs
        self._lost = lost
        self._logs = logs
        self._held = held

    def apply(self, key: TopicPartition, assignment: Assignment) -> None:
        """This broker should host `key`, in the role of `assignment`, which it takes AFTER its log is there."""
        if self._held.postpones(key, lambda: self.apply(key, assignment)):
            return
        self._hosted.assign(key, assignment)
        if key in self._lost and not self._revival.sets_others_aside(key, assignment.topic_id):
            self._revival.revive(key)
        else:
            self._creation.host(key)

    def remove(
        self, key: TopicPartition, topic_id: str, moved: LeaderHint | None = None, *, is_absent: bool = False
    ) -> None:
        """A committed record says that this broker hosts the partition no longer: its data is deleted. If it is only
        absent from a snapshot, the data is set aside as stray. `moved` names the leader of one that lives on elsewhere.
        """
        if self._held.postpones(key, lambda: self.remove(key, topic_id, moved, is_absent=is_absent)):
            return
        partition = self._hosted.find(key)
        if partition is not None and partition.log.topic_id != topic_id:
            return
        self._hosted.unassign(key, moved)
        self._creation.forget(key)
        if partition is None and self._logs.is_of_others(key, topic_id):
            return  # the log of another topic that had this name: no record deletes it
        self._lost.forget(key)
        if partition is not None:
            if moved is None:
                partition.stop(UnknownTopicOrPartitionError(f"{key} was deleted"))
            else:
                partition.stop(
                    NotLeaderOrFollowerError(f"{key} was moved away from broker {self.broker_id}", leader=moved)
                )
            self._opener.dismiss(partition)
        if is_absent:
            _log.warning("%s is not in the metadata any more, by a snapshot: its log is set aside", key)
            self._creation.deletions.set_aside(key, topic_id)
        else:
            self._creation.deletions.delete(key, topic_id)

    def remove_stray(self, key: TopicPartition, topic_id: str, *, is_deleted: bool) -> None:
        """The start found a log that no replica here is of, BEFORE any replica takes a role: it is deleted if a record
        has deleted its topic meanwhile, or set aside as stray. A topic that was made anew gets the name afterwards."""
        if is_deleted:
            self._creation.deletions.delete(key, topic_id)
        else:
            self._creation.deletions.set_aside(key, topic_id)

    def hosts(self, key: TopicPartition) -> bool:
        """Whether this broker serves the partition, or would if it could."""
        return key in self._hosted or key in self._lost or self._creation.awaits(key)

    def brokers_changed(
        self,
        registered_epochs: Mapping[int, int],
        active_brokers: frozenset[int],
        with_failed_dirs: Mapping[int, BrokerRegistration] = MappingProxyType({}),
    ) -> None:
        """The registered brokers, those of them that are in service, and those that have failed log dirs, as the
        metadata has them now."""
        self._lost.shown_in_metadata(registered_epochs.get(self.broker_id, NO_EPOCH))
        self._isrs.brokers_changed(registered_epochs, active_brokers, self._hosted.all(), with_failed_dirs)

    def revive_lost(self) -> None:
        """Called AFTER all roles of an image: its registrations may now decide about lost replicas."""
        self._revival.revive_all()

    def __repr__(self) -> str:
        return f"ReplicaAssignments({self._hosted!r}, {self._lost!r})"
