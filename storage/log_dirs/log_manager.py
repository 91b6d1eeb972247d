"""All logs of a node: opened from its log dirs at start, created, found, and closed in order.

Damage does not spread: a log that cannot be opened is offline with its error; a log dir that cannot be used takes only
its own logs offline.

Called from one thread, except the checkpoint methods, which may run in another. `log_table.py` has the set of logs,
`log_removal.py` deletes and sets aside, `log_loading.py` loads, `log_closing.py` closes, `log_directory.py` has the
files of a log dir, `group_commit.py` flushes, and the broker has the schedules.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.errors import ConfigError, KafkaStorageError, PenstockError
from penstock.types import TopicPartition
from storage.append.producer_ids import ProducerIds
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.disk.call_watch import CallWatch
from storage.disk.disk_errors import is_disk_full, storage_error
from storage.disk.machine import Machine
from storage.disk.stop_wait import StopWait
from storage.disk.watched_file_system import WatchedFileSystem
from storage.log.group_commit import FLUSH_THREADS
from storage.log.log import Log
from storage.log.log_types import LogManagerStatistics, OfflineLog
from storage.log_config import LogConfig
from storage.log_dirs.clean_shutdown import NO_BROKER_EPOCH
from storage.log_dirs.future_logs import FutureLogs
from storage.log_dirs.log_checkpoints import LogCheckpoints
from storage.log_dirs.log_closing import LogClosing, Stop
from storage.log_dirs.log_creation import LogCreation
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_loading import LogLoader, find_logs, refuse_without_descriptors
from storage.log_dirs.log_manager_config import LoadProgress, LogManagerConfig
from storage.log_dirs.log_opener import LogOpener
from storage.log_dirs.log_removal import LogRemoval
from storage.log_dirs.log_table import LogTable
from storage.log_dirs.meta_properties import MetaProperties, verify_log_dirs
from storage.log_dirs.vanished_logs import find_vanished, replicas_set_aside
from storage.segment.open_files import OpenFiles, share_of

__all__ = ["LoadProgress", "LogManager", "LogManagerConfig"]

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of one node."""

    def __init__(self, machine: Machine, config: LogManagerConfig, log_dirs: Sequence[str]) -> None:
        self.calls = CallWatch(log_dirs)
        """The calls to the disks that are under way."""
        self.file_system = WatchedFileSystem(machine.file_system, self.calls)
        """The file system for every part of the node that works on a log dir."""
        machine = replace(machine, file_system=self.file_system)
        self._machine, self._config = machine, config
        self._fs, self._clock = self.file_system, machine.clock
        self.meta_properties: dict[str, MetaProperties] = {}  # of the log dirs that answered at start, by path
        self._directories: dict[str, LogDirectory] = {}
        self.offline_log_dirs: dict[str, PenstockError] = {}
        self._unlisted_log_dirs: list[str] = []  # offline ones whose logs are not known
        self.cordoned: set[str] = set()
        """The log dirs that get no new logs (KIP-1066), by path."""
        self._is_loaded = False
        self.table = LogTable()
        self.removal = LogRemoval(machine, config.log_config, self._directories, self.table)
        open_files_max = config.open_files_max
        self.open_files = OpenFiles(share_of(machine.descriptors_max) if open_files_max is None else open_files_max)
        self.producer_ids = ProducerIds(config.producer_ids, self._clock, machine.threads)
        self._opener = LogOpener(self._fs, config, self.open_files, self.producer_ids, machine.threads)
        self.checkpoints = LogCheckpoints(self._directories, self.table)
        self.creation = LogCreation(
            directories=self._directories,
            table=self.table,
            removal=self.removal,
            opener=self._opener,
            unlisted_log_dirs=self._unlisted_log_dirs,
            offline_log_dirs=self.offline_log_dirs,
            cordoned=self.cordoned,
        )
        self._closing = LogClosing(self._directories, self.table, self.checkpoints, machine.threads)
        self.futures = FutureLogs(machine, self._directories, self._opener, self.removal.deleted)

    @classmethod
    def open(cls, dirs: Sequence[str | os.PathLike[str]], config: LogManagerConfig, machine: Machine) -> LogManager:
        """Take the log dirs and open every log in them, with recovery where the last stop was not clean."""
        paths = [os.path.normpath(os.fspath(path)) for path in dirs]
        if not paths or len(set(paths)) != len(paths):
            raise ConfigError(f"log.dirs = {','.join(paths)}: give at least one directory, and each only once")
        manager = cls(machine, config, paths)
        fs = manager.file_system
        manager.meta_properties, failed = verify_log_dirs(fs, paths, config.cluster_id, config.node_id)
        try:
            for path, error in failed.items():
                manager.fail_log_dir(path, error)
            manager._take(manager.meta_properties)
            manager._load()
        except BaseException:
            manager.close(clean=False)
            raise
        if not manager._directories:
            raise next(iter(manager.offline_log_dirs.values()))
        return manager

    def _take(self, paths: Sequence[str] | Mapping[str, MetaProperties]) -> None:
        for path in paths:
            try:
                self._directories[path] = LogDirectory(self._fs, path, self._machine.threads)
            except OSError as error:
                refuse_without_descriptors("use the log dir", path, error)
                self.fail_log_dir(path, error)

    def _load(self) -> None:
        found = find_logs(
            self._fs,
            tuple(self._directories.values()),
            self._opener.topic_id_if_known,
            all_dirs_answer=not self.offline_log_dirs,
            gave_up_dirs=self._config.gave_up_dirs,
        )
        self.futures.going_on = found.going_on
        for path, error in found.failed.items():
            self.fail_log_dir(path, error)
        for topic_partition, directories in found.copies.items():
            path, *copies = (self._opener.path(directory, topic_partition) for directory in directories)
            why = KafkaStorageError(f"{path}: the same partition is in {', '.join(copies)} too; move all but one away")
            self._stays_offline(topic_partition, OfflineLog(path, why, tuple(copies)))
        for topic_partition, (path, error) in found.cannot_go.items():
            self._stays_offline(topic_partition, OfflineLog(path, storage_error("remove an empty log", path, error)))
        threads, opener = self._machine.threads, self._opener
        loader = LogLoader(found.logs, lambda log: opener.open(log.directory, log.topic_partition), threads)
        for log, opened in zip(found.logs, loader.load(self._config, self._clock), strict=True):
            if isinstance(opened, Log):
                self.table.add(opened)
            else:
                path = self._opener.path(log.directory, log.topic_partition)
                topic_id = self._opener.topic_id_if_known(log.directory, log.topic_partition) or ""
                self._stays_offline(log.topic_partition, OfflineLog(path, opened, topic_id=topic_id))
        self._is_loaded = True
        self.removal.found(found.set_aside)
        in_use = tuple(self._directories.values())
        for log_id, path in find_vanished(self._fs, in_use, self.table, found.set_aside).items():
            self.table.vanished.put(*log_id, path)
        for directory in in_use:
            if not directory.was_clean:
                self._checkpoint_after_recovery(directory)

    def _stays_offline(self, topic_partition: TopicPartition, offline: OfflineLog) -> None:
        _log.error("%s; the log is offline", offline.error)
        self.table.offline.put(topic_partition, offline.topic_id, offline)

    def _checkpoint_after_recovery(self, directory: LogDirectory) -> None:
        """A crash soon after the start then need not check everything again. A full disk does not prevent the start."""
        try:
            self.checkpoints.write_recovered(directory)
        except OSError as error:
            refuse_without_descriptors("write a checkpoint", directory.path, error)
            if not is_disk_full(error):
                self.fail_log_dir(directory.path, error)

    # -- finding and creating ------------------------------------------------------------------------------------------

    @property
    def was_clean_shutdown(self) -> bool:
        """True if every log dir that the node had was closed cleanly before this start, and is here."""
        return not self.offline_log_dirs and all(
            stop is not None and (stop.directory_ids is None or stop.directory_ids <= self._directory_ids())
            for stop in (directory.clean_stop for directory in self._directories.values())
        )

    def _directory_ids(self) -> set[str]:
        return {properties.directory_id for properties in self.meta_properties.values()}

    def directory_id(self, log_dir: str) -> str:
        """The id of a log dir that answered at start, in use or failed since."""
        return self.meta_properties[log_dir].directory_id

    def directory_ids(self, log_dirs: Iterable[str]) -> frozenset[str]:
        """The ids of those that answered at start."""
        return frozenset(self.directory_id(log_dir) for log_dir in log_dirs if log_dir in self.meta_properties)

    def path_of(self, directory_id: str) -> str | None:
        """The log dir with that id; None where none of those that answered at start has it."""
        known = self.meta_properties.items()
        return next((path for path, properties in known if properties.directory_id == directory_id), None)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the clean stop before this start; -1 after any other stop (KIP-966)."""
        stops = {d.clean_stop.broker_epoch for d in self._directories.values() if d.clean_stop is not None}
        return stops.pop() if len(stops) == 1 and self.was_clean_shutdown else NO_BROKER_EPOCH

    def get(self, topic_partition: TopicPartition, topic_id: str) -> Log | None:
        return self.table.logs.get(topic_partition, topic_id)

    def logs(self) -> tuple[Log, ...]:
        return self.table.logs.values()

    def replicas_without_log(self) -> frozenset[tuple[str, int]]:
        """Topic id and number of each partition of which only a directory that was set aside as stray is here."""
        known = (*self.table.logs.ids(), *self.table.offline.ids())
        return replicas_set_aside(self._fs, self.removal.strays) - {
            (log.topic_id, log.topic_partition.partition) for log in known
        }

    def cleaner_checkpoint(self, log: Log) -> CleanerCheckpoint | None:
        """The checkpoint of the log's log dir; None when the dir is out of use."""
        directory = self._directories.get(log.log_dir)
        return directory.cleaner_checkpoint if directory is not None else None

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        config: LogConfig,
        *,
        is_new: bool = False,
        log_dir: str | None = None,
        preferred_dir: str | None = None,
    ) -> Log:
        """The log of the topic, created if it does not exist; blocks. See `LogCreation.begin`."""
        new = self.creation.begin(
            topic_partition, topic_id, config, is_new=is_new, log_dir=log_dir, preferred_dir=preferred_dir
        )
        if isinstance(new, Log):
            return new
        log = None
        try:
            log = self.creation.make(new)
        finally:
            self.creation.end(new, log)
        return log

    # -- failures ------------------------------------------------------------------------------------------------------

    def fail_log(self, log: Log, error: PenstockError) -> None:
        """Take one log out of use: a read found it damaged. Waits for no disk: the next checkpoint of recovery points
        has how far it was flushed, and the caller asks for one (`broker/replication/disk_failures.py`)."""
        if self.table.logs.get(log.topic_partition, log.topic_id) is log:
            self.table.take_offline(log, error)

    def fail_log_dir(self, log_dir: str, error: OSError) -> tuple[TopicPartition, ...]:
        """Take a log dir and its logs out of use; returns the partitions that are offline by it."""
        failure = storage_error("use the log dir", log_dir, error)
        _log.error("%s", failure)
        self.offline_log_dirs[log_dir] = failure
        if not self._is_loaded:
            self._unlisted_log_dirs.append(log_dir)
        affected = self.table.logs_in(log_dir)
        for log in affected:
            self.table.take_offline(log, failure)
        directory = self._directories.pop(log_dir, None)
        if directory is not None:
            with contextlib.suppress(OSError):
                directory.close(clean=False, broker_epoch=NO_BROKER_EPOCH)
        return tuple(log.topic_partition for log in affected)

    # -- end -----------------------------------------------------------------------------------------------------------

    def close(self, clean: bool = True, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close everything, then write the markers. If not `clean`, close everything as it is."""
        stop = Stop(clean, broker_epoch, self._directory_ids())
        for log_dir in tuple(self._directories):
            self._closing.close(log_dir, stop)
        self.table.logs.clear()
        self._directories.clear()

    async def close_within(self, wait: StopWait, clean: bool, broker_epoch: int) -> None:
        """Closes the logs as `close` does, with threads for each log dir. A dir that is given up, before or now, gets
        no marker and keeps its lock and its logs: a thread may still write into it, and a checkpoint without its logs
        would forget how far they were flushed."""
        self.open_files.evict_no_more()  # BEFORE: a file that a thread uses may be closed by that thread only
        stop = Stop(clean, broker_epoch, self._directory_ids())
        await wait.each(
            tuple(self._directories),
            lambda log_dir: self._closing.close(log_dir, stop, lambda: log_dir in wait.given_up, FLUSH_THREADS),
        )
        for log_dir in self._directories.keys() - wait.given_up:
            for log in self.table.logs_in(log_dir):
                self.table.logs.pop(log.topic_partition, log.topic_id)
            del self._directories[log_dir]

    def statistics(self) -> LogManagerStatistics:
        return LogManagerStatistics(
            logs=len(self.table.logs),
            size_bytes=sum(log.size_bytes for log in self.table.logs.values()),
            offline_logs=len(self.table.offline),
            log_dirs=len(self._directories),
            offline_log_dirs=len(self.offline_log_dirs),
            strays=len(self.removal.strays),
            rotten=len(self.removal.rotten),
            deleted=len(self.removal.deleted),
        )

    def __repr__(self) -> str:
        return f"LogManager({', '.join(self._directories)}, {self.table!r})"
