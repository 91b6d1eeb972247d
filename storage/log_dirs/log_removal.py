"""Takes logs out of a node: deletes them, or sets aside logs that are not assigned here or are damaged.

A deletion renames first, durably (after a crash the next start finishes it), and removes later. A log that is set aside
is never deleted here: only a record deletes, and a person decides what can be saved of a damaged log.

A log that is in use is deleted in three steps, because its disk may hang: `begin_deletion` takes it out of use,
`delete_begun` renames in another thread, `end_deletion` takes the result.

Called from one thread, except `delete_begun`, `delete_due` and `remove_deleted`, which may run in another. Not here:
the rename (`set_aside.py`), the removal of files (`deleted_logs.py`), failures (`log_manager.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence

from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, ROTTEN_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX
from storage.disk.machine import Machine
from storage.log.log import Log
from storage.log.log_types import OfflineLog
from storage.log_config import LogConfig
from storage.log_dirs.deleted_logs import DeletedLogs
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import ByLogId, LogTable
from storage.log_dirs.set_aside import SetAside

_log = logging.getLogger(__name__)


class LogRemoval:
    """See the module. The directories and the table are the log manager's own, and live."""

    def __init__(
        self,
        machine: Machine,
        default_config: LogConfig,
        directories: Mapping[str, LogDirectory],
        table: LogTable,
    ) -> None:
        """`default_config` says when the files of a deleted log that could not be opened are removed."""
        self._clock, self._default_config = machine.clock, default_config
        self._directories, self._table = directories, table
        self.strays: list[str] = []
        """Directories set aside because they are not assigned here, now or by an earlier run."""
        self.rotten: list[str] = []
        """Directories set aside because they are damaged, now or by an earlier run."""
        self.deleted = DeletedLogs(machine.file_system, machine.threads.lock())
        self.aside = SetAside(machine.file_system, machine.ids)
        self._deleting: ByLogId[Log] = ByLogId()
        """Logs out of use and in no table, whose directories may still have the old names."""

    def found(self, set_aside: Mapping[str, str]) -> None:
        """An earlier run set these directories aside: path to suffix."""
        for path, suffix in set_aside.items():
            if suffix == DELETE_DIRECTORY_SUFFIX:
                self.deleted.add(path, self._clock.now_ms())
            else:
                _log.warning("%s was set aside by an earlier run; look at it and delete it", path)
                (self.strays if suffix == STRAY_DIRECTORY_SUFFIX else self.rotten).append(path)

    def delete(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Delete the log and its files, now; blocks; does nothing when there is none."""
        for path in self._delete_later(topic_partition, topic_id):
            self.deleted.remove(path)

    def begin_deletion(self, topic_partition: TopicPartition, topic_id: str) -> Log | None:
        """Take the log out of use without waiting for its disk; `delete_begun` and `end_deletion` must follow. None if
        nothing is left to do: a log that was out of use already is deleted here, as by `set_aside_for_deletion`.
        """
        log = self._table.logs.get(topic_partition, self._table.id_here(topic_partition, topic_id))
        if log is None:
            self.set_aside_for_deletion(topic_partition, topic_id)
            return None
        self._table.forget_vanished(topic_partition, topic_id)
        self._deleting.put(topic_partition, log.topic_id, log)
        self._table.drop(log, wait=False)
        return log

    def is_deleting(self, topic_partition: TopicPartition) -> bool:
        """Whether a deletion of a log of that name has begun and not ended."""
        return bool(self._deleting.named(topic_partition))

    def delete_begun(self, logs: Sequence[Log]) -> dict[Log, str | KafkaStorageError]:
        """Set them aside for deletion, durably; all are in one log dir. Blocks, in any thread; the new path of each, or
        why it has none."""
        log_dir = logs[0].log_dir
        for log in logs:
            log.abandon()  # BEFORE its directory gets another name
        directory = self._directories.get(log_dir)
        if directory is None:
            return {log: KafkaStorageError(f"{log.directory}: its log dir has failed") for log in logs}
        outcomes = self.aside.take_all(
            {log.directory: log.topic_partition for log in logs}, DELETE_DIRECTORY_SUFFIX, log_dir
        )
        for log in logs:
            if isinstance(outcomes[log.directory], str):
                with contextlib.suppress(OSError):  # harmless: a new log of this name lowers the line to 0
                    directory.cleaner_checkpoint.remove(log.topic_partition)
        return {log: outcomes[log.directory] for log in logs}

    def end_deletion(self, log: Log, outcome: str | KafkaStorageError) -> None:
        """Take the result: the log has a new path, or it stays, and the next start sets it aside as stray."""
        self._deleting.pop(log.topic_partition, log.topic_id)
        if isinstance(outcome, str):
            self.deleted.add(outcome, self._clock.now_ms() + log.config.file_delete_delay_ms)
            return
        _log.error("%s was deleted, but its files are still on the disk: %s", log.topic_partition, outcome)
        stays = self._table.offline if self._in_use(log.directory) else self._table.left_behind
        stays.put(log.topic_partition, log.topic_id, OfflineLog(log.directory, outcome, topic_id=log.topic_id))

    def set_aside_for_deletion(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Delete the log, durably; its files go after `file.delete.delay.ms`, by `delete_due`. Its new path."""
        return next(iter(self._delete_later(topic_partition, topic_id)), None)

    def _delete_later(self, topic_partition: TopicPartition, topic_id: str) -> list[str]:
        log = self._table.logs.get(topic_partition, self._table.id_here(topic_partition, topic_id))
        config = log.config if log is not None else self._default_config
        paths = self._set_aside(topic_partition, topic_id, DELETE_DIRECTORY_SUFFIX)
        for path in paths:
            self.deleted.add(path, self._clock.now_ms() + config.file_delete_delay_ms)
            directory = self._directories.get(os.path.dirname(path))
            if directory is not None:
                with contextlib.suppress(OSError):  # harmless: a new log of this name lowers the line to 0
                    directory.cleaner_checkpoint.remove(topic_partition)
        return paths

    def delete_due(self, now_ms: int, log_dir: str | None = None) -> int:
        """Remove directories of deleted logs whose time has come, a bounded number; how many. Blocks."""
        return self.deleted.delete_due(now_ms, log_dir)

    def remove_deleted(self, path: str) -> None:
        """Remove the directory of a deleted log before its time; blocks."""
        self.deleted.remove(path)

    def stray(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Set a log aside, offline or not, under a name that nothing uses; never deleted here. Its new path."""
        paths = self._set_aside(topic_partition, topic_id, STRAY_DIRECTORY_SUFFIX)
        self.strays += paths
        return paths[0] if paths else None

    def set_aside_rotten(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Set an offline log aside, so that the replica can be built anew from its leader; never deleted here.

        Its new path; None when it is not offline, or only because its log dir is. The checkpoints forget it AFTER the
        rename: without its recovery point, rot would be cut off like a torn tail.
        """
        offline = self._table.offline.get_as(topic_partition, topic_id)
        if offline is None or not self._in_use(offline.directory):
            return None
        paths = self._set_aside(topic_partition, topic_id, ROTTEN_DIRECTORY_SUFFIX)
        self.rotten += paths
        for path in offline.directories:
            directory = self._directories.get(os.path.dirname(path))
            if directory is not None:
                try:
                    directory.forget(topic_partition)
                except OSError as error:
                    raise storage_error("write a checkpoint", directory.path, error) from error
        return paths[0]

    def _in_use(self, path: str) -> bool:
        """Whether the log dir of this path is in use, and not offline."""
        return os.path.dirname(path) in self._directories

    def _set_aside(self, topic_partition: TopicPartition, topic_id: str, suffix: str) -> list[str]:
        """KafkaStorageError when the disk refused it, or when the log dir failed before."""
        self._table.forget_vanished(topic_partition, topic_id)
        topic_id = self._table.id_here(topic_partition, topic_id)
        log = self._table.logs.get(topic_partition, topic_id)
        if log is not None:
            why = KafkaStorageError(f"{log.directory}: it could not be set aside")
            self._table.take_offline(log, OfflineLog(log.directory, why, topic_id=topic_id))
        offline = self._table.offline.get(topic_partition, topic_id)
        if offline is None:
            return []
        targets = self.aside.take(tuple(filter(self._in_use, offline.directories)), topic_partition, suffix)
        self._table.offline.pop(topic_partition, topic_id)
        self._leave_behind(topic_partition, offline)
        return targets

    def _leave_behind(self, topic_partition: TopicPartition, offline: OfflineLog) -> None:
        """Refuse logs in log dirs that failed: another process may hold these dirs now."""
        paths = [path for path in offline.directories if not self._in_use(path)]
        if paths:
            rest = OfflineLog(paths[0], offline.error, tuple(paths[1:]), offline.topic_id)
            self._table.left_behind.put(topic_partition, offline.topic_id, rest)
            raise KafkaStorageError(
                f"{paths[0]} stays where it is, because its log dir failed; the first start that finds it there sets it"
                " aside as stray"
            )

    def finish(self, topic_partition: TopicPartition) -> None:
        """Of logs whose directories were renamed, while a shortage kept that from being durable."""
        for topic_id, offline in tuple(self._table.offline.named(topic_partition).items()):
            suffix = self.aside.begun(offline.directories)
            if suffix == DELETE_DIRECTORY_SUFFIX:
                self.set_aside_for_deletion(topic_partition, topic_id)
            elif suffix is not None:
                (self.stray if suffix == STRAY_DIRECTORY_SUFFIX else self.set_aside_rotten)(topic_partition, topic_id)

    def __repr__(self) -> str:
        return f"LogRemoval({len(self.strays)} strays, {len(self.rotten)} rotten, {len(self.deleted)} to delete)"
