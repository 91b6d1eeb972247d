"""Opens a hosted partition over its log, and dismisses it again.

Opening gives the partition its log (the one on disk, or one that was created), its checkpointed high watermark, and its
flushes. Dismissing takes these away, and notifies the parts that use the partition; the log stays. Not here: when a
partition is opened or dismissed (replica_creation.py, replica_revival.py, replica_assignments.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.replication.checkpointed_high_watermarks import CheckpointedHighWatermarks
from broker.replication.durability import Durability
from broker.replication.hosting.assignment import Assignment
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.replica_states import Replica
from broker.replication.lost_replicas import why_no_empty_log
from broker.replication.partition import Partition, PartitionReports
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log_dirs.log_creation import NewLog
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_table import LogId


class PartitionOpener:
    """Opens and dismisses hosted partitions. There is one per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        log_manager: LogManager,
        high_watermarks: CheckpointedHighWatermarks,
        durability: Durability,
        reports: PartitionReports,
        dismissed: Sequence[Callable[[TopicPartition], None]],
    ) -> None:
        """`reports` is given to every partition; each of `dismissed` is called for a partition that is dismissed."""
        self._hosted = hosted
        self._log_manager = log_manager
        self._high_watermarks = high_watermarks
        self._durability = durability
        self._reports = reports
        self._dismissed = tuple(dismissed)

    def has_log(self, key: TopicPartition, topic_id: str) -> bool:
        """True if a log dir that is in use holds the topic's log."""
        return self._log_manager.get(key, topic_id) is not None

    def why_not_empty(self, key: TopicPartition, assignment: Assignment) -> str:
        """The reason why an empty log may not replace one that held records; "" if it may, or if a log is there."""
        if self.has_log(key, assignment.topic_id):
            return ""
        vanished = self._log_manager.table.vanished.get_as(key, assignment.topic_id)
        return why_no_empty_log(self._hosted.broker_id, assignment.state, vanished)

    def find_log(self, key: TopicPartition, assignment: Assignment, *, is_new: bool) -> Log | NewLog:
        """The log that is there, or one to create, in the log dir of the metadata if possible; raises what
        `LogCreation.begin` raises."""
        assigned = self._log_manager.path_of(assignment.state.directory_of(self._hosted.broker_id))
        return self._log_manager.creation.begin(
            key, assignment.topic_id, assignment.settings.log, is_new=is_new, preferred_dir=assigned
        )

    def open(self, replica: Replica, assignment: Assignment, log: Log) -> None:
        """The replica has a partition over its log, which is in use."""
        partition = Partition(
            self._hosted.broker_id,
            log,
            self._high_watermarks.take(LogId(replica.key, assignment.topic_id)),
            assignment.settings.min_insync_replicas,
            self._reports,
        )
        replica.open(partition)
        self._durability.watch(partition)

    def dismiss(self, partition: Partition) -> None:
        """Called AFTER `Partition.stop`, and when its replica has it no longer: no fetcher fetches for it any more."""
        self._durability.forget(partition)
        for tell in self._dismissed:
            tell(partition.topic_partition)

    def __repr__(self) -> str:
        return f"PartitionOpener({self._hosted!r})"
