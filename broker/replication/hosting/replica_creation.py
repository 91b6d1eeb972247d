"""Brings a replica that this broker should host into service: over the log that is there, or over a new one.

A new log waits for its turn (hosting_slices.py), and for the deletion of another topic's log of the same name
(log_deletions.py). A thread of its log dir creates it (log_creations.py); the replica then takes the role of the newest
metadata, or the log is deleted again if its topic was meanwhile. A replica that cannot be created is noted as lost. Not
here: taking its role (replica_roles.py), and the next try for a lost replica (replica_revival.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.hosting.assignment import Assignment
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.hosting_slices import HostingSlices
from broker.replication.hosting.log_creations import REFUSALS, LogCreations
from broker.replication.hosting.log_deletions import LogDeletions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.hosting.replica_roles import ReplicaRoles
from broker.replication.hosting.replica_states import TO_CREATE, HostingState, Replica
from broker.replication.lost_replicas import LostReplicas
from metadata.registrations import PartitionRegistration
from penstock.clock import Clock
from penstock.errors import InvariantViolation, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.log_dir_threads import InLogDir
from storage.disk.stop_wait import StopWait
from storage.log.log import Log
from storage.log_dirs.log_creation import LogCreation, NewLog
from storage.log_dirs.log_removal import LogRemoval

_log = logging.getLogger(__name__)


class ReplicaCreation:
    """Brings replicas into service. There is one per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        opener: PartitionOpener,
        roles: ReplicaRoles,
        lost: LostReplicas,
        removal: LogRemoval,
        creation: LogCreation,
        clock: Clock,
        removing: InLogDir,
        creating: InLogDir,
        leave_isrs: Callable[[PartitionRegistration], None],
        disk_failed: Callable[[str, Exception], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`leave_isrs` is called for a replica that could not be created, if others in the ISR, or clients, rely on
        it; `disk_failed` for a log dir."""
        self.to_create = HostingSlices(self._host_now, clock.now_ms, on_fatal)
        self.deletions = LogDeletions(removal, self._name_is_free, removing, disk_failed)
        self.creations = LogCreations(creation, creating, self._created)
        self._hosted = hosted
        self._opener = opener
        self._roles = roles
        self._lost = lost
        self._leave_isrs = leave_isrs

    def host(self, replica: Replica) -> None:
        """Serve the assigned replica in its role, at once if possible. It may wait for its turn already."""
        assignment = replica.assignment
        if replica.partition is not None:
            self._roles.take(replica)
        elif assignment is not None and replica.state is HostingState.ABSENT:
            is_new = assignment.state.partition_epoch == 0
            if self._opener.has_log(replica.key, assignment.topic_id):
                replica.queue(starts_empty=is_new)
                self._host_now(replica)
            else:
                self.to_create.submit(replica, starts_empty=is_new)

    def _host_now(self, replica: Replica) -> None:
        """Hosts the replica in its role of the newest metadata: its turn has come."""
        key, assignment = replica.key, replica.assignment
        if assignment is None:
            raise InvariantViolation(f"{replica} is not assigned")
        begun = self.creations.begun(key)
        if self.deletions.holds_up(key, assignment.topic_id) or begun not in (None, assignment.topic_id):
            replica.block()
        elif begun is not None:
            replica.create()
        elif why := self._opener.why_not_empty(key, assignment):
            self._lost.not_created(replica, KafkaStorageError(why), starts_empty=False)
            self._lost.say(replica, why)
        else:
            self._find_or_create(replica, assignment)

    def _find_or_create(self, replica: Replica, assignment: Assignment) -> None:
        try:
            found = self._opener.find_log(replica.key, assignment, is_new=replica.starts_empty)
        except REFUSALS as error:
            self._not_created(replica, assignment.state, error)
            return
        if isinstance(found, Log):
            self._serve(replica, assignment, found)
        else:
            replica.create()
            self.creations.create(found)

    def _serve(self, replica: Replica, assignment: Assignment, log: Log) -> None:
        self._opener.open(replica, assignment, log)
        self._roles.take(replica)

    def _created(self, new: NewLog, outcome: Log | Exception) -> None:
        """The log is there, or why it is not; the metadata may have changed meanwhile."""
        replica = self._hosted.known(new.topic_partition)
        assignment = replica.assignment
        if assignment is None or assignment.topic_id != new.topic_id:
            if isinstance(outcome, Log):
                self.deletions.delete(new.topic_partition, outcome.topic_id)  # removed while its log was created
            if replica.state in (HostingState.BLOCKED, HostingState.CREATING):
                self.to_create.submit(replica, starts_empty=replica.starts_empty)
        elif isinstance(outcome, Log):
            self._serve(replica, assignment, outcome)
        else:
            self._not_created(replica, assignment.state, outcome)
        self._hosted.tidy(replica)

    def _name_is_free(self, key: TopicPartition) -> None:
        """A log of that name has left."""
        replica = self._hosted.replica(key)
        if replica is not None and replica.state is HostingState.BLOCKED:
            self.to_create.submit(replica, starts_empty=replica.starts_empty)

    def _not_created(self, replica: Replica, state: PartitionRegistration, error: Exception) -> None:
        was_lost = replica.lost is not None
        self._lost.not_created(replica, error, starts_empty=replica.starts_empty)
        if was_lost:
            self._lost.say(replica, f"it cannot be hosted yet: {error}")
            return
        _log.error("%s cannot be hosted: %s", replica.key, error)
        alone = (self._hosted.broker_id,)
        if self._hosted.broker_id in state.isr and (state.isr != alone or (state.leader_id,) == alone):
            self._leave_isrs(state)

    def log_dir_failed(self, log_dir: str, error: Exception) -> None:
        """Nothing waits for its disk any more."""
        self.creations.log_dir_failed(log_dir, error)
        self.deletions.log_dir_failed(log_dir, error)

    def stop(self) -> None:
        """Create nothing more that waits for its turn, and serve nothing more; deletions go on."""
        self.to_create.stop()
        self.creations.stop()

    async def close(self, wait: StopWait) -> None:
        """Wait for creations and deletions, AFTER the last change of the metadata was published here."""
        await self.creations.close(wait)
        await self.deletions.close(wait)

    def __len__(self) -> int:
        """How many logs are still to be created."""
        return sum(replica.partition is None and replica.state in TO_CREATE for replica in self._hosted.replicas())

    def __repr__(self) -> str:
        return f"ReplicaCreation({self.to_create!r}, {self.creations!r}, {self.deletions!r})"
