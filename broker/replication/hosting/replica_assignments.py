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
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.hosting.replica_creation import ReplicaCreation
from broker.replication.hosting.replica_revival import ReplicaRevival
from broker.replication.hosting.replica_states import HostingState, Replica
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.lost_replicas import LostReplicas
from metadata.registrations import BrokerRegistration
from penstock.errors import ApiError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from penstock.types import NO_EPOCH, LeaderHint, TopicPartition
from storage.log_dirs.log_table import LogTable

_log = logging.getLogger(__name__)


class ReplicaAssignments:
    """Carries out assignments of the metadata. There is one per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        opener: PartitionOpener,
        creation: ReplicaCreation,
        revival: ReplicaRevival,
        isrs: IsrUpkeep,
        lost: LostReplicas,
        logs: LogTable,
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

    def apply(self, key: TopicPartition, assignment: Assignment) -> None:
        """This broker should host `key`, in the role of `assignment`, which it takes AFTER its log is there."""
        replica = self._hosted.known(key)
        if replica.postpones(lambda: self.apply(key, assignment)):
            return
        replica.assign(assignment)
        if replica.lost is not None and not self._revival.sets_others_aside(replica, assignment.topic_id):
            self._revival.revive(replica)
        else:
            self._creation.host(replica)

    def remove(
        self, key: TopicPartition, topic_id: str, moved: LeaderHint | None = None, *, is_absent: bool = False
    ) -> None:
        """A committed record says that this broker hosts the partition no longer: its data is deleted. If it is only
        absent from a snapshot, the data is set aside as stray. `moved` names the leader of one that lives on elsewhere.
        """
        replica = self._hosted.known(key)
        if replica.postpones(lambda: self.remove(key, topic_id, moved, is_absent=is_absent)):
            return
        partition = replica.partition
        if partition is not None and partition.log.topic_id != topic_id:
            return
        replica.unassign(moved)
        is_of_others = partition is None and self._logs.is_of_others(key, topic_id)
        if not (is_of_others and replica.state in (HostingState.DAMAGED, HostingState.OUT_OF_USE)):
            self._leave(replica, moved)
        self._hosted.tidy(replica)
        if is_of_others:
            return  # the log of another topic that had this name: no record deletes it
        if is_absent:
            _log.warning("%s is not in the metadata any more, by a snapshot: its log is set aside", key)
            self._creation.deletions.set_aside(key, topic_id)
        else:
            self._creation.deletions.delete(key, topic_id)

    def remove_stray(self, key: TopicPartition, topic_id: str, *, is_deleted: bool) -> None:
        """Removes a log that was found at the start and belongs to no replica of this broker, BEFORE any replica takes
        a role. It is deleted if a record has deleted its topic meanwhile, and else set aside as stray. A topic that was
        made anew gets the name afterwards."""
        if is_deleted:
            self._creation.deletions.delete(key, topic_id)
        else:
            self._creation.deletions.set_aside(key, topic_id)

    def _leave(self, replica: Replica, moved: LeaderHint | None) -> None:
        """Takes the replica out of service, or out of those that wait for their turn."""
        if replica.state is HostingState.ABSENT:
            return
        why: ApiError = UnknownTopicOrPartitionError(f"{replica.key} was deleted")
        if moved is not None:
            where = f"{replica.key} was moved away from broker {self.broker_id}"
            why = NotLeaderOrFollowerError(where, leader=moved)
        if (partition := replica.leave(why)) is not None:
            self._opener.dismiss(partition)

    def hosts(self, key: TopicPartition) -> bool:
        """True if this broker serves the partition, or would if it could."""
        return self._hosted.state(key) is not HostingState.ABSENT

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
