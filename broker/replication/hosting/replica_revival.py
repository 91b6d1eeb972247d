"""Takes lost replicas into service again: tries to create their log, or sets a damaged one aside for a new one.

lost_replicas.py decides when that may be done. A log that is out of use may be of another topic, which had the name
before; it is set aside as a stray, so the new topic does not wait for it. Not here: what took a replica offline
(disk_failures.py), the creation of a log (replica_creation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.checkpointed_high_watermarks import CheckpointedHighWatermarks
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.hosting_slices import HostingSlices
from broker.replication.hosting.log_deletions import LogDeletions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.lost_replicas import LostReplicas, Verdict
from metadata.registrations import PartitionRegistration
from penstock.types import TopicPartition
from storage.log_dirs.log_removal import Removal
from storage.log_dirs.log_table import LogId, LogTable

_log = logging.getLogger(__name__)


class ReplicaRevival:
    """See the module. One per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        lost: LostReplicas,
        opener: PartitionOpener,
        to_create: HostingSlices,
        deletions: LogDeletions,
        logs: LogTable,
        high_watermarks: CheckpointedHighWatermarks,
        leave_isrs: Callable[[PartitionRegistration], None],
    ) -> None:
        """`leave_isrs` is called for a damaged replica that may still be elected; see DiskFailures."""
        self._hosted = hosted
        self._lost = lost
        self._opener = opener
        self._to_create = to_create
        self._deletions, self._logs = deletions, logs
        self._high_watermarks = high_watermarks
        self._leave_isrs = leave_isrs

    def registered(self, broker_epoch: int) -> None:
        """The controller has answered a registration."""
        self._lost.registered(broker_epoch)
        self.revive_all()

    def revive_all(self) -> None:
        """Take every lost replica into service that may be served now; called on schedule and after a registration."""
        for key in self._lost.partitions:
            self.revive(key)

    def revive(self, key: TopicPartition) -> None:
        """See lost_replicas.py for when a damaged log may be given up."""
        lost, assignment = self._lost.get(key), self._hosted.assignment(key)
        if lost is None or assignment is None:
            return
        if why := self._opener.why_not_empty(key, assignment):
            self._lost.say(key, why)
            return
        verdict = self._lost.verdict(key, assignment.state)
        if verdict is Verdict.WAIT:
            self._lost.say(key, f"{lost.why}; {self._lost.obstacle(key, assignment.state)}")
            if self._lost.is_mistaken_for_eligible(key, assignment.state):
                self._leave_isrs(assignment.state)
            return
        if verdict is Verdict.REBUILD:
            self._give_up_log(key, assignment.topic_id)
        else:
            self._to_create.submit(key, is_new=lost.starts_empty)

    def _give_up_log(self, key: TopicPartition, topic_id: str) -> None:
        """It is set aside in a thread of its log dir; until then the replica is as lost as it was."""
        if self._deletions.is_under_way(key):
            return
        if not self._deletions.set_aside_rotten(key, topic_id, lambda removal: self._stands_aside(key, removal)):
            self._begin_anew(key, topic_id)

    def _stands_aside(self, key: TopicPartition, removal: Removal) -> None:
        """The metadata may have changed meanwhile."""
        assignment = self._hosted.assignment(key)
        if key not in self._lost or assignment is None or removal.topic_id not in (assignment.topic_id, ""):
            return
        if removal.error is not None:
            self._lost.say(key, f"it cannot be hosted yet: {removal.error}")
            return
        path, leader_id = removal.targets[0], assignment.state.leader_id
        _log.warning("%s: its damaged log stands aside as %s; fetching it anew from broker %d", key, path, leader_id)
        self._begin_anew(key, assignment.topic_id)

    def _begin_anew(self, key: TopicPartition, topic_id: str) -> None:
        partition = self._hosted.find(key)
        if partition is not None:
            self._opener.dismiss(partition)
        self._high_watermarks.forget(LogId(key, topic_id))
        self._lost.set_aside(key)
        self._to_create.submit(key, is_new=True)

    def sets_others_aside(self, key: TopicPartition, topic_id: str) -> bool:
        """Whether only logs of other topics, which had this name before, were out of use: they are set aside, and the
        replica is not lost. A log that is offline is kept for its own topic."""
        partition, offline = self._hosted.find(key), self._logs.offline
        if partition is not None and partition.topic_id == topic_id:
            return False
        others = tuple(offline.named(key))
        if not others or offline.get_as(key, topic_id) is not None:
            return False
        for found in others:
            _log.warning("%s: a log of topic id %s, which was deleted, is set aside", key, found)
            self._deletions.set_aside(key, found)
            self._high_watermarks.forget(LogId(key, found))
        if partition is not None:
            self._opener.dismiss(partition)
        self._lost.forget(key)
        self._to_create.forget(key)
        return True

    def __repr__(self) -> str:
        return f"ReplicaRevival({self._lost!r})"
