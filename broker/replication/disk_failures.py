"""Decides what an error of a disk takes out of use: one operation, one replica, or a whole log dir.

    a shortage (a full disk, no descriptors)    refuses one operation; everything stays online
    damage, or a shortage in mid-change         takes one replica offline
    any other disk error                        takes the log dir offline, with every replica in it

The controller must know, so that no other replica relies on one that is lost here. Of a log dir that failed it is told
by heartbeat, and takes exactly the replicas in that dir from their ISRs: the metadata names the dir of each. If it does
not name that dir for one of them, or if a replica is lost in a good dir, this broker registers anew and so leaves every
ISR (ADR 0008, ADR 0016).

A disk that failed once is not trusted again (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX
ATC 2020). Not here: when a replica comes back (lost_replicas.py), what a node does without its log dirs (node.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition
from broker.replication.refused_appends import RefusedAppends
from metadata.registrations import PartitionRegistration
from penstock.errors import CorruptFileError, KafkaStorageError, PenstockError
from storage.disk.disk_errors import is_shortage, offline_error
from storage.disk.log_dir_threads import InLogDir
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)


class DiskFailures:
    """Takes out of use what an error of a disk has hit. All methods are called on the event loop."""

    def __init__(
        self,
        log_manager: LogManager,
        hosted: HostedPartitions,
        lost: LostReplicas,
        refused: RefusedAppends,
        threads: InLogDir,
        on_replica_lost: Callable[[], None],
        on_log_dir_failed: Callable[[str, Exception], None],
    ) -> None:
        """`threads` write notes; `on_replica_lost` has this broker register anew; `on_log_dir_failed` is told once for
        each log dir, and has the controller told."""
        self._log_manager, self._hosted, self._lost, self._refused = log_manager, hosted, lost, refused
        self._threads = threads
        self._on_replica_lost = on_replica_lost
        self._log_dir_listeners = [on_log_dir_failed]

    def listen(self, on_log_dir_failed: Callable[[str, Exception], None]) -> None:
        """A part that is made later, and has work in log dirs, is told BEFORE those that were there before it."""
        self._log_dir_listeners.insert(0, on_log_dir_failed)

    def disk_error(self, partition: Partition, error: Exception) -> None:
        """A read, an append or a truncation of the partition's log failed with `error`."""
        cause = error if isinstance(error, OSError) else error.__cause__
        if is_shortage(error) and not partition.log.statistics().failed:
            self._refused.say(partition, error)
        elif is_shortage(error):  # it came where the log cannot do without; the dir and its other logs can
            self.partition_failed(partition, error)
        elif isinstance(error, CorruptFileError):
            self.log_failed(partition.log, error)
            self.partition_failed(partition, error)
        elif isinstance(cause, OSError):
            self.directory_failed(partition.log.log_dir, cause)

    def log_failed(self, log: Log, error: PenstockError) -> None:
        """The log goes out of use. A thread of its log dir notes how far it was flushed; if the node dies before, the
        next start knows as much as the last checkpoint."""
        self._log_manager.fail_log(log, error)
        log_dir, failures = log.log_dir, list[KafkaStorageError | None]()

        def note() -> None:
            failures.append(self._log_manager.checkpoints.try_recovery_points(log_dir))

        def noted(bug: BaseException | None) -> None:
            failure = bug or failures[0]
            if failure is not None:
                _log.error("%s: no checkpoint has how far it was flushed yet: %s", log.directory, failure)
            if failure is not None and isinstance(failure.__cause__, OSError) and not is_shortage(failure):
                self.directory_failed(log_dir, failure.__cause__)

        try:
            self._threads.run(log_dir, note, noted)
        except (OSError, MemoryError) as shortage:  # the next checkpoint has it
            noted(shortage)

    def partition_failed(self, partition: Partition, error: Exception) -> None:
        """The disk under one partition failed: it goes offline here, the others go on. The controller still counts this
        replica in the ISR, and may even let it lead, until this broker has left the ISRs."""
        if self._take_offline(partition, error):
            self.leave_isrs(partition.state)

    def _take_offline(self, partition: Partition, error: Exception) -> bool:
        """False for a partition that was dismissed before: another one may have its name by now."""
        replica = self._hosted.replica(partition.topic_partition)
        if replica is None or replica.partition is not partition:
            return False
        _log.error("%s goes offline: %s", partition, error)
        self._lost.failed(replica, error, offline_error(partition.log.directory, error))
        return True

    def leave_isrs(self, state: PartitionRegistration) -> None:
        """A replica is lost: no other member of an ISR may rely on this broker for it, or wait for it to lead; nor may
        it be elected."""
        if len(state.replicas) > 1:
            self._on_replica_lost()

    def directory_failed(self, directory: str, error: Exception) -> None:
        """A log dir failed: every partition in it goes offline, and the dir is not used again. Flushes that were under
        way may report the failure once more."""
        if directory in self._log_manager.offline_log_dirs:
            return
        for partition in self._hosted.all():
            if partition.log.log_dir == directory:
                self._take_offline(partition, error)
                recorded = partition.state.directory_of(self._lost.broker_id)
                if recorded != self._log_manager.directory_id(directory):
                    self.leave_isrs(partition.state)
        if isinstance(error, OSError):
            self._log_manager.fail_log_dir(directory, error)
        for on_failed in self._log_dir_listeners:
            on_failed(directory, error)

    def __repr__(self) -> str:
        return f"DiskFailures({self._log_manager!r}, {len(self._lost)} replicas lost)"
