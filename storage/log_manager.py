"""All logs of a node: opened from its log dirs at start, created, found, set aside, and closed in order.

What is damaged takes only itself out: a log that cannot be opened is offline with its error, a log dir that cannot be
used takes its logs with it, and the rest goes on. Absence never deletes: a directory that nobody asks for stays,
`stray` renames it, and so does `set_aside_rotten` with one that is damaged. A deletion renames first, durably (a crash
then finishes the job), and removes later.

Called from one thread, except the checkpoint methods, `delete_due` and `remove_deleted`, which may run in another. Not
here: schedules (broker), flushing (`group_commit.py`), loading (`log_loading.py`), what a log dir knows
(`log_directory.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from penstock.clock import Clock
from penstock.errors import ConfigError, CorruptFileError, KafkaStorageError, PenstockError
from penstock.types import TopicPartition
from storage.clean_shutdown import NO_BROKER_EPOCH
from storage.cleaner_checkpoint import CleanerCheckpoint
from storage.deleted_logs import DeletedLogs
from storage.disk_errors import is_disk_full, storage_error
from storage.file_names import DELETE_DIRECTORY_SUFFIX, ROTTEN_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_checkpoints import LogCheckpoints
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_loading import LogLoader, find_logs, find_vanished, refuse_without_descriptors
from storage.log_manager_config import LoadProgress, LogManagerConfig
from storage.log_opener import LogOpener
from storage.log_types import LogManagerStatistics, OfflineLog
from storage.meta_properties import MetaProperties, verify_log_dirs
from storage.open_files import OpenFiles, default_limit
from storage.partition_metadata import read_topic_id
from storage.set_aside import SetAside

__all__ = ["LoadProgress", "LogManager", "LogManagerConfig"]

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of one node."""

    def __init__(self, fs: FileSystem, config: LogManagerConfig, clock: Clock) -> None:
        self._fs, self._config, self._clock = fs, config, clock
        self.meta_properties: dict[str, MetaProperties] = {}  # of the log dirs that answered at start, by path
        self.vanished: dict[TopicPartition, str] = {}
        """Logs that had flushed records and are not there: where they were. A new log of that name ends it."""
        self._directories: dict[str, LogDirectory] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._log_counts: Counter[str] = Counter()  # by log dir
        self.offline_logs: dict[TopicPartition, OfflineLog] = {}
        self.offline_log_dirs: dict[str, PenstockError] = {}
        self.strays: list[str] = []  # directories set aside because nobody asked for them, now or by an earlier run
        self.rotten: list[str] = []  # directories set aside because they are damaged, now or by an earlier run
        self._deleted = DeletedLogs(fs)
        self.aside = SetAside(fs)
        self.open_files = OpenFiles(default_limit() if config.open_files_max is None else config.open_files_max)
        self._opener = LogOpener(fs, config, self.open_files)
        self.checkpoints = LogCheckpoints(self._directories, self._logs, self.offline_logs, self.vanished)

    @classmethod
    def open(
        cls, dirs: Sequence[str | os.PathLike[str]], config: LogManagerConfig, fs: FileSystem, clock: Clock
    ) -> LogManager:
        """Take the log dirs and open every log in them, with recovery where the last stop was not clean."""
        paths = [os.path.normpath(os.fspath(path)) for path in dirs]
        if not paths or len(set(paths)) != len(paths):
            raise ConfigError(f"log.dirs = {','.join(paths)}: give at least one directory, and none twice")
        manager = cls(fs, config, clock)
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
                self._directories[path] = LogDirectory(self._fs, path)
            except OSError as error:
                refuse_without_descriptors("use the log dir", path, error)
                self.fail_log_dir(path, error)

    def _load(self) -> None:
        found = find_logs(self._fs, tuple(self._directories.values()))
        for path, error in found.failed.items():
            self.fail_log_dir(path, error)
        for topic_partition, directories in found.copies.items():
            path, *copies = (self._opener.path(directory, topic_partition) for directory in directories)
            why = KafkaStorageError(f"{path}: the same partition stands in {', '.join(copies)}; move all but one away")
            self._take_offline(topic_partition, OfflineLog(path, why, tuple(copies)))
        loader = LogLoader(found.logs, lambda log: self._opener.open(log.directory, log.topic_partition))
        for log, opened in zip(found.logs, loader.load(self._config, self._clock), strict=True):
            if isinstance(opened, Log):
                self._add(opened)
            else:
                path = self._opener.path(log.directory, log.topic_partition)
                self._take_offline(log.topic_partition, OfflineLog(path, opened))
        self._note_set_aside(found.set_aside)
        self.vanished.update(find_vanished(found, tuple(self._directories.values())))
        for directory in tuple(self._directories.values()):
            if not directory.was_clean:
                self._checkpoint_after_recovery(directory)

    def _take_offline(self, topic_partition: TopicPartition, offline: OfflineLog) -> None:
        _log.error("%s; the log is offline", offline.error)
        self.offline_logs[topic_partition] = offline

    def _note_set_aside(self, set_aside: Mapping[str, str]) -> None:
        for path, suffix in set_aside.items():
            if suffix == DELETE_DIRECTORY_SUFFIX:
                self._deleted.add(path, self._clock.now_ms())
            else:
                _log.warning("%s stands aside since an earlier run; nobody deletes it", path)
                (self.strays if suffix == STRAY_DIRECTORY_SUFFIX else self.rotten).append(path)

    def _checkpoint_after_recovery(self, directory: LogDirectory) -> None:
        """So that a crash soon after does not check everything again; the disk may be full and the node starts yet."""
        try:
            self.checkpoints.write_recovery_points_of(directory)
        except OSError as error:
            refuse_without_descriptors("write a checkpoint", directory.path, error)
            if not is_disk_full(error):
                self.fail_log_dir(directory.path, error)

    # Finding and creating

    @property
    def was_clean_shutdown(self) -> bool:
        """Every log dir that the node had was closed in order before this start, and is there."""
        return not self.offline_log_dirs and all(
            stop is not None and (stop.directory_ids is None or stop.directory_ids <= self._directory_ids())
            for stop in (directory.clean_stop for directory in self._directories.values())
        )

    def _directory_ids(self) -> set[str]:
        return {properties.directory_id for properties in self.meta_properties.values()}

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the clean stop before this start; -1 after any other stop (KIP-966)."""
        stops = {d.clean_stop.broker_epoch for d in self._directories.values() if d.clean_stop is not None}
        return stops.pop() if len(stops) == 1 and self.was_clean_shutdown else NO_BROKER_EPOCH

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    def logs(self) -> tuple[Log, ...]:
        return tuple(self._logs.values())

    def cleaner_checkpoint(self, log: Log) -> CleanerCheckpoint | None:
        """That of the log's log dir; None when the dir is out of use."""
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
    ) -> Log:
        """The log, created when there is none: in `log_dir`, or else in the log dir with the fewest logs.

        While a log dir is offline, the log may be in it; only a partition that `is_new` in the cluster is created then,
        for an empty replica must not take the place of one that has records.
        """
        self._finish_set_aside(topic_partition)
        offline = self.offline_logs.get(topic_partition)
        if offline is not None:
            raise KafkaStorageError(f"{offline.directory}: the log is offline: {offline.error}") from offline.error
        log = self._logs.get(topic_partition)
        if log is not None:
            self._opener.ensure_topic_id(log, topic_id)
            return log
        if self.offline_log_dirs and not is_new:
            dirs = ", ".join(self.offline_log_dirs)
            raise KafkaStorageError(
                f"{topic_partition} is in no log dir that works, and may be in one that failed: {dirs}"
            )
        directory = self._emptiest() if log_dir is None else self._directories.get(os.path.normpath(log_dir))
        if directory is None:
            raise KafkaStorageError(f"{topic_partition} cannot be created: {log_dir or 'every log dir'} is offline")
        log = self._opener.create(directory, topic_partition, topic_id, config)
        self._add(log)
        return log

    def _emptiest(self) -> LogDirectory | None:
        return min(self._directories.values(), key=lambda directory: self._log_counts[directory.path], default=None)

    def _add(self, log: Log) -> None:
        self.vanished.pop(log.topic_partition, None)
        self._logs[log.topic_partition] = log
        self._log_counts[log.log_dir] += 1

    def _drop(self, topic_partition: TopicPartition) -> Log | None:
        """The log is out of use: nothing of it is written any more."""
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            self._log_counts[log.log_dir] -= 1
            log.abandon()
        return log

    # Taking out

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete the log and its files, now; blocks; does nothing when there is none."""
        for path in self._delete_later(topic_partition):
            self._deleted.remove(path)

    def set_aside_for_deletion(self, topic_partition: TopicPartition) -> str | None:
        """Delete the log, durably; its files go after `file.delete.delay.ms`, by `delete_due`. Its new path."""
        return next(iter(self._delete_later(topic_partition)), None)

    def _delete_later(self, topic_partition: TopicPartition) -> list[str]:
        log = self._logs.get(topic_partition)
        config = log.config if log is not None else self._config.log_config
        paths = self._set_aside(topic_partition, DELETE_DIRECTORY_SUFFIX)
        for path in paths:
            self._deleted.add(path, self._clock.now_ms() + config.file_delete_delay_ms)
            directory = self._directories.get(os.path.dirname(path))
            if directory is not None:
                with contextlib.suppress(OSError):  # a line too many harms nobody: whoever gets the name is told 0
                    directory.cleaner_checkpoint.remove(topic_partition)
        return paths

    def delete_due(self, now_ms: int, log_dir: str | None = None) -> int:
        """Remove directories of deleted logs whose time has come, a bounded number; how many. Blocks."""
        return self._deleted.delete_due(now_ms, log_dir)

    def remove_deleted(self, path: str) -> None:
        """Remove the directory of a deleted log before its time; blocks."""
        self._deleted.remove(path)

    def stray(self, topic_partition: TopicPartition) -> str | None:
        """Set a log aside, offline or not, under a name that nothing uses; never deleted here. Its new path."""
        paths = self._set_aside(topic_partition, STRAY_DIRECTORY_SUFFIX)
        self.strays += paths
        return paths[0] if paths else None

    def offline_topic_id(self, topic_partition: TopicPartition) -> str:
        """Whose an offline log is; "" where that cannot be read, or its log dir is out of use."""
        offline = self.offline_logs.get(topic_partition)
        if offline is None or offline.copies or os.path.dirname(offline.directory) not in self._directories:
            return ""
        with contextlib.suppress(OSError, CorruptFileError):
            return read_topic_id(self._fs, offline.directory) or ""
        return ""

    def set_aside_rotten(self, topic_partition: TopicPartition) -> str | None:
        """Set an offline log aside, so that the replica can be built anew from its leader; never deleted here.

        Its new path; None when it is not offline, or only because its log dir is. The checkpoints forget it AFTER the
        rename: without its recovery point, rot would be cut off like a torn tail.
        """
        offline = self.offline_logs.get(topic_partition)
        if offline is None or os.path.dirname(offline.directory) not in self._directories:
            return None
        paths = self._set_aside(topic_partition, ROTTEN_DIRECTORY_SUFFIX)
        self.rotten += paths
        for path in (offline.directory, *offline.copies):
            directory = self._directories.get(os.path.dirname(path))
            if directory is not None:
                try:
                    directory.forget(topic_partition)
                except OSError as error:
                    raise storage_error("write a checkpoint", directory.path, error) from error
        return paths[0]

    def _set_aside(self, topic_partition: TopicPartition, suffix: str) -> list[str]:
        self.vanished.pop(topic_partition, None)
        log, offline = self._drop(topic_partition), self.offline_logs.get(topic_partition)
        if log is not None:
            why = KafkaStorageError(f"{log.directory}: it could not be set aside")
            offline = self.offline_logs[topic_partition] = OfflineLog(log.directory, why)
        paths = (offline.directory, *offline.copies) if offline is not None else ()
        targets = self.aside.take(paths, topic_partition, suffix)
        self.offline_logs.pop(topic_partition, None)
        return targets

    def _finish_set_aside(self, topic_partition: TopicPartition) -> None:
        """Of a log whose directory was renamed, while a shortage kept that from being durable."""
        offline = self.offline_logs.get(topic_partition)
        suffix = self.aside.begun((offline.directory, *offline.copies)) if offline is not None else None
        if suffix == DELETE_DIRECTORY_SUFFIX:
            self.set_aside_for_deletion(topic_partition)
        elif suffix is not None:
            (self.stray if suffix == STRAY_DIRECTORY_SUFFIX else self.set_aside_rotten)(topic_partition)

    def fail_log(self, topic_partition: TopicPartition, error: PenstockError) -> None:
        """Take one log out of use: it was found damaged while it was read.

        How far it was flushed is written down, or the next start would take what has rotted for a torn tail.
        """
        log = self._drop(topic_partition)
        if log is None:
            return
        self.offline_logs[topic_partition] = OfflineLog(log.directory, error)
        if (directory := self._directories.get(log.log_dir)) is not None:
            try:
                directory.checkpoint_recovery_point(topic_partition, log.recovery_point)
            except OSError as failure:
                _log.error("%s", storage_error("write a checkpoint", log.log_dir, failure))

    def fail_log_dir(self, log_dir: str, error: OSError) -> tuple[TopicPartition, ...]:
        """Take a log dir and its logs out of use; returns the partitions that are offline by it."""
        failure = storage_error("use the log dir", log_dir, error)
        _log.error("%s", failure)
        self.offline_log_dirs[log_dir] = failure
        affected = {tp: log.directory for tp, log in self._logs.items() if log.log_dir == log_dir}
        for topic_partition, path in affected.items():
            self._drop(topic_partition)
            self.offline_logs[topic_partition] = OfflineLog(path, failure)
        directory = self._directories.pop(log_dir, None)
        if directory is not None:
            with contextlib.suppress(OSError):
                directory.close(clean=False, broker_epoch=NO_BROKER_EPOCH)
        return tuple(affected)

    # Checkpoints; from any thread

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is flushed; regularly, so that the next recovery is short."""
        self.checkpoints.write_recovery_points()

    def checkpoint_log_starts(self) -> None:
        """Write the log starts that are not the beginning of a segment; regularly."""
        self.checkpoints.write_log_starts()

    def checkpoint_high_watermarks(self, read: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Write the high watermarks that `read` returns; a log that is not in the mapping keeps the one it has."""
        self.checkpoints.write_high_watermarks(read)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The last checkpointed high watermarks, none above its log's end."""
        return self.checkpoints.high_watermarks()

    # End

    def close(self, clean: bool = True, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close everything, then write the markers. Not clean: let go of everything as it is."""
        ids = self._directory_ids()
        for directory in tuple(self._directories.values()):
            closed = clean and self._close_logs(directory)
            with contextlib.suppress(OSError):
                directory.close(clean=closed, broker_epoch=broker_epoch, directory_ids=ids)
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self._directories.clear()

    def _close_logs(self, directory: LogDirectory) -> bool:
        """True when everything in the dir is durable and its checkpoints say so."""
        failures: list[Exception] = []
        for log in self.logs():
            if log.log_dir == directory.path:
                try:
                    log.close()
                except (OSError, PenstockError) as error:
                    failures.append(error)
        try:
            self.checkpoints.write_recovery_points_of(directory)
            self.checkpoints.write_log_starts_of(directory)
        except OSError as error:
            failures.append(error)
        for failure in failures[:1]:
            _log.error("%s: not closed cleanly (%d failures): %s", directory.path, len(failures), failure)
        return not failures

    def statistics(self) -> LogManagerStatistics:
        return LogManagerStatistics(
            logs=len(self._logs),
            size_bytes=sum(log.size_bytes for log in self._logs.values()),
            offline_logs=len(self.offline_logs),
            log_dirs=len(self._directories),
            offline_log_dirs=len(self.offline_log_dirs),
            strays=len(self.strays),
            rotten=len(self.rotten),
            deleted=len(self._deleted),
        )

    def __repr__(self) -> str:
        return f"LogManager({', '.join(self._directories)}, {len(self._logs)} logs, {len(self.offline_logs)} offline)"
