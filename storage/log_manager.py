"""All logs of a node: opened from its log dirs at start, created, found, set aside, and closed in order.

What is damaged takes only itself out: a log that cannot be opened is offline with its error, a log dir that cannot be
used takes its logs with it, and the rest goes on. Absence never deletes: a directory that nobody asks for stays,
`stray` renames it. A deletion renames first, durably (a crash then finishes the job), and removes after that.

Called from one thread, except the checkpoint methods, which may run in another. Not here: schedules (broker), flushing
(`group_commit.py`), what a log dir knows (`log_directory.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.clock import Clock
from penstock.errors import (
    ConfigError,
    CorruptFileError,
    InconsistentTopicIdError,
    KafkaStorageError,
    MetaPropertiesError,
    PenstockError,
)
from penstock.types import TopicPartition
from storage.clean_shutdown import NO_BROKER_EPOCH
from storage.disk_errors import storage_error
from storage.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    is_deleted_directory,
    is_stray_directory,
    parse_partition_directory,
    partition_directory,
    set_aside_directory,
)
from storage.file_system import FileSystem, remove_tree
from storage.log import Log
from storage.log_config import FlushPolicy, LogConfig
from storage.log_directory import LogDirectory
from storage.log_types import LogManagerStatistics, LogOptions, OfflineLog
from storage.meta_properties import MetaProperties, verify_log_dirs
from storage.partition_metadata import read_topic_id, write_topic_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """Whose log dirs they must be, and how logs are opened."""

    node_id: int
    cluster_id: str | None = None
    """None: whatever the dirs agree on."""
    log_config: LogConfig = field(default_factory=LogConfig)
    flush_policy: FlushPolicy = "fsync"
    config_for: Callable[[TopicPartition], LogConfig] | None = None
    """The config of a log that is found at start, where it is known already; needed for compacted topics."""


class LogManager:
    """The logs of one node."""

    def __init__(
        self, fs: FileSystem, config: LogManagerConfig, clock: Clock, properties: list[MetaProperties]
    ) -> None:
        self._fs, self._config, self._clock = fs, config, clock
        self.meta_properties = tuple(properties)
        self._directories: dict[str, LogDirectory] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self.offline_logs: dict[TopicPartition, OfflineLog] = {}
        self.offline_log_dirs: dict[str, PenstockError] = {}
        self.strays: list[str] = []
        """Directories that were set aside, now or by an earlier run."""

    @classmethod
    def open(
        cls, dirs: Sequence[str | os.PathLike[str]], config: LogManagerConfig, fs: FileSystem, clock: Clock
    ) -> LogManager:
        """Take the log dirs and open every log in them, with recovery where the last stop was not clean."""
        paths = [os.path.normpath(os.fspath(path)) for path in dirs]
        if not paths or len(set(paths)) != len(paths):
            raise ConfigError(f"log.dirs = {','.join(paths)}: give at least one directory, and none twice")
        manager = cls(fs, config, clock, verify_log_dirs(fs, paths, config.cluster_id, config.node_id))
        try:
            for path in paths:
                manager._open_directory(path)
        except BaseException:
            manager.close(clean=False)
            raise
        if not manager._directories:
            raise next(iter(manager.offline_log_dirs.values()))
        return manager

    def _open_directory(self, path: str) -> None:
        try:
            directory = self._directories[path] = LogDirectory(self._fs, path)
            for name in self._fs.listdir(path):
                self._open_entry(directory, name)
            if not directory.was_clean:
                self._checkpoint_recovery_points(directory)
        except OSError as error:
            self.fail_log_dir(path, error)

    def _open_entry(self, directory: LogDirectory, name: str) -> None:
        path = f"{directory.path}/{name}"
        if not self._fs.is_directory(path):
            return
        topic_partition = parse_partition_directory(name)
        if is_deleted_directory(name):
            remove_tree(self._fs, path)
        elif is_stray_directory(name):
            self.strays.append(path)
        elif topic_partition is not None:
            self._open_log(directory, path, topic_partition)

    def _open_log(self, directory: LogDirectory, path: str, topic_partition: TopicPartition) -> None:
        if topic_partition in self._logs:
            other = self._logs[topic_partition].directory
            error = KafkaStorageError(f"{path}: the same partition stands in {other}; set one of them aside by hand")
            self.offline_logs[topic_partition] = OfflineLog(path, error)
            self._logs.pop(topic_partition).abandon()
            return
        config_for = self._config.config_for
        config = config_for(topic_partition) if config_for is not None else self._config.log_config
        options = self._options(directory, "")
        options = replace(options, last_known=directory.last_known(topic_partition))
        try:
            options = replace(options, topic_id=self._topic_id(path, options))
            self._logs[topic_partition] = Log(self._fs, path, topic_partition, config, options)
        except CorruptFileError as damage:
            _log.error("%s; the log is offline", damage)
            self.offline_logs[topic_partition] = OfflineLog(path, damage)

    def _topic_id(self, path: str, options: LogOptions) -> str:
        """Empty when a crash came before the first flush of the log: then it holds nothing that was acked."""
        try:
            return read_topic_id(self._fs, path) or ""
        except CorruptFileError:
            if options.last_known.recovery_point != 0:
                raise
            return ""

    def _options(self, directory: LogDirectory, topic_id: str) -> LogOptions:
        return LogOptions(
            topic_id=topic_id,
            flush_policy=self._config.flush_policy,
            lower_checkpoints=directory.lower_checkpoints,
        )

    # Finding and creating

    @property
    def was_clean_shutdown(self) -> bool:
        """Every log dir was closed in order before this start."""
        return not self.offline_log_dirs and all(directory.was_clean for directory in self._directories.values())

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the clean stop before this start; -1 after any other stop (KIP-966)."""
        epochs = {directory.marker_epoch for directory in self._directories.values()}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return epoch if epoch is not None and self.was_clean_shutdown else NO_BROKER_EPOCH

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    def logs(self) -> tuple[Log, ...]:
        return tuple(self._logs.values())

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
        offline = self.offline_logs.get(topic_partition)
        if offline is not None:
            raise KafkaStorageError(f"{offline.directory}: the log is offline: {offline.error}") from offline.error
        log = self._logs.get(topic_partition)
        if log is not None:
            self._must_have_topic_id(log, topic_id)
            return log
        if self.offline_log_dirs and not is_new:
            dirs = ", ".join(self.offline_log_dirs)
            raise KafkaStorageError(
                f"{topic_partition} is in no log dir that works, and may be in one that failed: {dirs}"
            )
        log = self._create(topic_partition, topic_id, config, log_dir)
        self._logs[topic_partition] = log
        return log

    def _must_have_topic_id(self, log: Log, topic_id: str) -> None:
        if log.topic_id == topic_id:
            return
        if log.topic_id or log.size_bytes:
            raise InconsistentTopicIdError(
                f"{log.directory} holds topic id {log.topic_id or '(none)'}, not {topic_id}; set it aside as stray"
            )
        write_topic_id(self._fs, log.directory, topic_id)
        self._fs.fsync_dir(log.directory)
        log.topic_id = topic_id

    def _create(self, topic_partition: TopicPartition, topic_id: str, config: LogConfig, log_dir: str | None) -> Log:
        directory = self._directories[self._emptiest() if log_dir is None else os.path.normpath(log_dir)]
        try:
            directory.lower_checkpoints(topic_partition, 0)  # of an earlier log with this name
        except OSError as error:
            raise storage_error("create a log", directory.path, error) from error
        path = f"{directory.path}/{partition_directory(topic_partition)}"
        return Log.create(self._fs, path, topic_partition, config, self._options(directory, topic_id))

    def _emptiest(self) -> str:
        counts = dict.fromkeys(self._directories, 0)
        for log in self._logs.values():
            counts[log.log_dir] += 1
        return min(counts, key=lambda path: counts[path])

    # Taking out

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete the log and its files; does nothing when there is none."""
        path = self.set_aside_for_deletion(topic_partition)
        if path is not None:
            self.remove_deleted(path)

    def set_aside_for_deletion(self, topic_partition: TopicPartition) -> str | None:
        """The first half of `delete`: durable, quick. The second half, with the path, may run in another thread."""
        return self._set_aside(topic_partition, DELETE_DIRECTORY_SUFFIX)

    def remove_deleted(self, path: str) -> None:
        """The second half of `delete`; blocks. What is left of it is removed at the next start."""
        try:
            remove_tree(self._fs, path)
        except OSError as error:
            raise storage_error("delete", path, error) from error

    def stray(self, topic_partition: TopicPartition) -> str | None:
        """Set a log aside, offline or not, under a name that nothing uses; never deleted here. Its new path."""
        path = self._set_aside(topic_partition, STRAY_DIRECTORY_SUFFIX)
        if path is not None:
            _log.warning("%s: set aside as %s", topic_partition, path)
            self.strays.append(path)
        return path

    def _set_aside(self, topic_partition: TopicPartition, suffix: str) -> str | None:
        log = self._logs.pop(topic_partition, None)
        offline = self.offline_logs.pop(topic_partition, None)
        if log is not None:
            log.abandon()
            path = log.directory
        elif offline is not None:
            path = offline.directory
        else:
            return None
        log_dir = os.path.dirname(path)
        target = f"{log_dir}/{set_aside_directory(topic_partition, suffix)}"
        try:
            self._fs.rename(path, target)
            self._fs.fsync_dir(log_dir)
        except OSError as error:
            raise storage_error("set aside", path, error) from error
        return target

    def fail_log(self, topic_partition: TopicPartition, error: PenstockError) -> None:
        """Take one log out of use: it was found damaged while it was read."""
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.abandon()
            self.offline_logs[topic_partition] = OfflineLog(log.directory, error)

    def fail_log_dir(self, log_dir: str, error: OSError) -> tuple[TopicPartition, ...]:
        """Take a log dir and its logs out of use; returns the partitions that are offline by it."""
        failure = storage_error("use the log dir", log_dir, error)
        _log.error("%s", failure)
        self.offline_log_dirs[log_dir] = failure
        affected = tuple(tp for tp, log in self._logs.items() if log.log_dir == log_dir)
        for topic_partition in affected:
            log = self._logs.pop(topic_partition)
            log.abandon()
            self.offline_logs[topic_partition] = OfflineLog(log.directory, failure)
        directory = self._directories.pop(log_dir, None)
        if directory is not None:
            with contextlib.suppress(OSError):
                directory.close(clean=False, broker_epoch=NO_BROKER_EPOCH)
        return affected

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is flushed; regularly, so that the next recovery is short."""
        self._for_each_directory("write a checkpoint", self._checkpoint_recovery_points)

    def checkpoint_log_starts(self) -> None:
        """Write the log starts that are not the beginning of a segment."""
        self._for_each_directory("write a checkpoint", self._checkpoint_log_starts)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks; a log that is not in the mapping keeps the one it has."""

        def write(directory: LogDirectory) -> None:
            known = {**directory.high_watermarks, **high_watermarks}
            mine = {log.topic_partition for log in self._logs_in(directory)} | self._offline_in(directory)
            directory.checkpoint_high_watermarks({tp: hw for tp, hw in known.items() if tp in mine})

        self._for_each_directory("write a checkpoint", write)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The last checkpointed high watermarks, none above its log's end."""
        found: dict[TopicPartition, int] = {}
        for directory in self._directories.values():
            for topic_partition, high_watermark in directory.high_watermarks.items():
                log = self._logs.get(topic_partition)
                if log is not None:
                    found[topic_partition] = min(high_watermark, log.log_end_offset)
        return found

    def _for_each_directory(self, action: str, write: Callable[[LogDirectory], None]) -> None:
        for directory in tuple(self._directories.values()):
            try:
                write(directory)
            except OSError as error:
                raise storage_error(action, directory.path, error) from error

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in tuple(self._logs.values()) if log.log_dir == directory.path]

    def _checkpoint_recovery_points(self, directory: LogDirectory) -> None:
        directory.checkpoint_recovery_points(
            lambda: {log.topic_partition: log.recovery_point for log in self._logs_in(directory)},
            self._offline_in(directory),
        )

    def _offline_in(self, directory: LogDirectory) -> set[TopicPartition]:
        offline = tuple(self.offline_logs.items())
        return {tp for tp, log in offline if os.path.dirname(log.directory) == directory.path}

    def _checkpoint_log_starts(self, directory: LogDirectory) -> None:
        directory.checkpoint_log_starts(
            lambda: {
                log.topic_partition: log.log_start_offset
                for log in self._logs_in(directory)
                if log.log_start_offset > log.segments[0].base_offset
            },
            self._offline_in(directory),
        )

    # End

    def close(self, clean: bool = True, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close everything, then write the markers. Not clean: let go of everything as it is."""
        for directory in tuple(self._directories.values()):
            closed = clean and self._close_logs(directory)
            with contextlib.suppress(OSError):
                directory.close(clean=closed, broker_epoch=broker_epoch)
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self._directories.clear()

    def _close_logs(self, directory: LogDirectory) -> bool:
        """True when everything in the dir is durable and its checkpoints say so."""
        try:
            for log in self._logs_in(directory):
                log.close()
            self._checkpoint_recovery_points(directory)
            self._checkpoint_log_starts(directory)
        except (OSError, KafkaStorageError, MetaPropertiesError) as error:
            _log.error("%s: not closed cleanly: %s", directory.path, error)
            return False
        return True

    def statistics(self) -> LogManagerStatistics:
        return LogManagerStatistics(
            logs=len(self._logs),
            size_bytes=sum(log.size_bytes for log in self._logs.values()),
            offline_logs=len(self.offline_logs),
            log_dirs=len(self._directories),
            offline_log_dirs=len(self.offline_log_dirs),
            strays=len(self.strays),
        )

    def __repr__(self) -> str:
        return f"LogManager({', '.join(self._directories)}, {len(self._logs)} logs, {len(self.offline_logs)} offline)"
