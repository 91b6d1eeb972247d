"""Takes lost replicas into service again: tries to create their log, or sets a damaged one aside for a new one.

lost_replicas.py decides when that may be done. A log that is out of use may be of another topic, which had the name
before; it is set aside as a stray, so the new topic does not wait for it. Not here: what took a replica offline
(disk_failures.py), the creation of a log (replica_creation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.replication.checkpointed_high_watermarks import CheckpointedHighWatermarks
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.hosting_slices import HostingSlices
from broker.replication.hosting.log_deletions import LogDeletions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.hosting.replica_states import LOST, HostingState, Replica
from broker.replication.lost_replicas import LostReplicas, Verdict
from metadata.registrations import PartitionRegistration
from storage.log_dirs.log_removal import Removal
from storage.log_dirs.log_table import LogId, LogTable

_log = logging.getLogger(__name__)


class ReplicaRevival:
    """Takes lost replicas into service again. There is one per broker, on the event loop."""

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
        """Take every lost replica into service that may be served now; called on schedule and after a registration.
        Logs whose removal was put off go first: they may have the names."""
        self._deletions.try_again()
        for replica in self._hosted.replicas():
            self.revive(replica)

    def revive(self, replica: Replica) -> None:
        """See lost_replicas.py for when a damaged log may be given up."""
        lost, assignment = replica.lost, replica.assignment
        if lost is None or assignment is None or replica.state not in LOST:
            return
        if why := self._opener.why_not_empty(replica.key, assignment):
            self._lost.say(replica, why)
            return
        verdict = self._lost.verdict(replica, assignment.state)
        if verdict is Verdict.WAIT:
            self._lost.say(replica, f"{lost.why}; {self._lost.obstacle(replica, assignment.state)}")
            if self._lost.is_mistaken_for_eligible(replica, assignment.state):
                self._leave_isrs(assignment.state)
            return
        if verdict is Verdict.REBUILD:
            self._give_up_log(replica, assignment.topic_id)
        else:
            self._to_create.submit(replica, starts_empty=replica.starts_empty)

    def _give_up_log(self, replica: Replica, topic_id: str) -> None:
        """The log is set aside in a thread of its log dir; until then the replica is as lost as it was."""
        if self._deletions.is_under_way(replica.key):
            return
        replica.give_up()
        if not self._deletions.set_aside_rotten(replica.key, topic_id, partial(self._stands_aside, replica)):
            self._begin_anew(replica, topic_id)

    def _stands_aside(self, replica: Replica, removal: Removal) -> None:
        """The metadata may have changed meanwhile."""
        key, assignment = replica.key, replica.assignment
        if replica.state is not HostingState.GIVEN_UP or assignment is None:
            return
        if removal.error is not None:
            replica.keep_log()
            self._lost.say(replica, f"it cannot be hosted yet: {removal.error}")
            return
        path, leader_id = removal.targets[0], assignment.state.leader_id
        _log.warning("%s: its damaged log stands aside as %s; fetching it anew from broker %d", key, path, leader_id)
        self._begin_anew(replica, assignment.topic_id)

    def _begin_anew(self, replica: Replica, topic_id: str) -> None:
        partition = self._lost.set_aside(replica)
        if partition is not None:
            self._opener.dismiss(partition)
        self._high_watermarks.forget(LogId(replica.key, topic_id))
        self._to_create.submit(replica, starts_empty=True)

    def sets_others_aside(self, replica: Replica, topic_id: str) -> bool:
        """True if only logs of other topics, which had this name before, were out of use: they are set aside, and the
        replica is not lost. A log that is offline is kept for its own topic."""
        key, partition, offline = replica.key, replica.partition, self._logs.offline
        if partition is not None and partition.topic_id == topic_id:
            return False
        others = tuple(offline.named(key))
        if not others or offline.get_as(key, topic_id) is not None:
            return False
        for found in others:
            _log.warning("%s: a log of topic id %s, which was deleted, is set aside", key, found)
            self._deletions.set_aside(key, found)
            self._high_watermarks.forget(LogId(key, found))
        if (dismissed := replica.leave()) is not None:
            self._opener.dismiss(dismissed)
        return True

    def __repr__(self) -> str:
        return f"ReplicaRevival({self._lost!r})"
