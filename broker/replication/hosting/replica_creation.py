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
from broker.replication.lost_replicas import LostReplicas
from metadata.registrations import PartitionRegistration
from penstock.clock import Clock
from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.log_dir_threads import InLogDir
from storage.disk.stop_wait import StopWait
from storage.log.log import Log
from storage.log_dirs.log_creation import LogCreation, NewLog
from storage.log_dirs.log_removal import LogRemoval

_log = logging.getLogger(__name__)


class ReplicaCreation:
    """See the module. One per broker, on the event loop."""

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
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`leave_isrs` is called for a replica that could not be created, if others in the ISR, or clients, rely on
        it."""
        self.to_create = HostingSlices(self._create, clock.now_ms, on_fatal)
        self.deletions = LogDeletions(removal, self._submit, removing)
        self.creations = LogCreations(creation, creating, self._created, self._submit)
        self._hosted = hosted
        self._opener = opener
        self._roles = roles
        self._lost = lost
        self._leave_isrs = leave_isrs
        self._starts_empty: set[TopicPartition] = set()
        """Logs that are being created, of partitions of which no replica anywhere has records."""

    def host(self, key: TopicPartition) -> None:
        """Serve the partition in its assigned role, at once if possible. It must have an assignment."""
        assignment = self._hosted.assignment(key)
        if assignment is None:
            return
        partition = self._hosted.find(key)
        is_new = assignment.state.partition_epoch == 0
        if partition is not None:
            self._roles.take(partition, assignment)
        elif self._opener.has_log(key, assignment.topic_id):
            self._create(key, is_new)
        else:
            self.to_create.submit(key, is_new=is_new)

    def _submit(self, key: TopicPartition, is_new: bool) -> None:
        self.to_create.submit(key, is_new=is_new)

    def _create(self, key: TopicPartition, is_new: bool) -> None:
        """Host a partition that was not hosted, in its role of the newest metadata."""
        assignment = self._hosted.assignment(key)
        if assignment is None or (key not in self._lost and self._hosted.is_of(key, assignment.topic_id)):
            return
        if self.deletions.postpones(key, assignment.topic_id, is_new=is_new):
            return
        if self.creations.postpones(key, assignment.topic_id, is_new=is_new):
            return
        if why := self._opener.why_not_empty(key, assignment):
            if key not in self._lost:
                self._lost.not_created(key, KafkaStorageError(why), is_new=False)
            self._lost.say(key, why)
            return
        try:
            log = self._opener.find_log(key, assignment, is_new=is_new)
        except REFUSALS as error:
            self._not_created(key, assignment.state, error, is_new)
            return
        if isinstance(log, Log):
            self._serve(key, assignment, log)
        else:
            if is_new:
                self._starts_empty.add(key)
            self.creations.create(log)

    def _serve(self, key: TopicPartition, assignment: Assignment, log: Log) -> None:
        self._lost.forget(key)
        self._roles.take(self._opener.open(key, assignment, log), assignment)

    def _created(self, new: NewLog, outcome: Log | Exception) -> None:
        """The log is there, or why it is not; the metadata may have changed meanwhile."""
        key = new.topic_partition
        is_new = key in self._starts_empty
        self._starts_empty.discard(key)
        assignment = self._hosted.assignment(key)
        if assignment is None or assignment.topic_id != new.topic_id:
            if isinstance(outcome, Log):
                self.deletions.delete(key, outcome.topic_id)  # the replica was removed while its log was created
        elif isinstance(outcome, Log):
            self._serve(key, assignment, outcome)
        else:
            self._not_created(key, assignment.state, outcome, is_new)

    def _not_created(self, key: TopicPartition, state: PartitionRegistration, error: Exception, is_new: bool) -> None:
        if key in self._lost:
            self._lost.say(key, f"it cannot be hosted yet: {error}")
            return
        _log.error("%s cannot be hosted: %s", key, error)
        self._lost.not_created(key, error, is_new=is_new)
        alone = (self._hosted.broker_id,)
        if self._hosted.broker_id in state.isr and (state.isr != alone or (state.leader_id,) == alone):
            self._leave_isrs(state)

    def awaits(self, key: TopicPartition) -> bool:
        """Whether the partition's log is still to be created."""
        return key in self.to_create or key in self.deletions or key in self.creations

    def forget(self, key: TopicPartition) -> None:
        """Do not create the partition any more."""
        self.to_create.forget(key)
        self.deletions.forget(key)
        self.creations.forget(key)

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
        return len(self.to_create) + len(self.deletions) + len(self.creations)

    def __repr__(self) -> str:
        return f"ReplicaCreation({self.to_create!r}, {self.creations!r}, {self.deletions!r})"
