"""Takes logs out of a node: deletes them, or sets aside logs that are not assigned here or are damaged.

A deletion renames first (after a crash the next start finishes it), and removes later. A log that is set aside is never
deleted here: only a record deletes, and a person decides what can be saved of a damaged log.

Every removal has three steps, because its disk may hang: `begin` takes the log out of use, `carry_out` renames in a
thread of the log dir, `end` takes the result. Until then no other log gets the name (`holds_up`). `broker/replication/
hosting/log_deletions.py` has the threads; `delete`, `stray` and the others do all three for a caller that may block.

Called from one thread, except `carry_out`, `delete_due` and `remove_deleted`, which may run in another. Not here:
the rename (`set_aside.py`), the removal of files (`deleted_logs.py`), failures (`log_manager.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from penstock.errors import KafkaStorageError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_shortage, storage_error
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, ROTTEN_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX
from storage.disk.machine import Machine
from storage.log.log_types import OfflineLog
from storage.log_config import LogConfig
from storage.log_dirs.deleted_logs import DeletedLogs
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import ByLogId, LogTable
from storage.log_dirs.set_aside import Aside, SetAside

_log = logging.getLogger(__name__)

Outcome = str | KafkaStorageError
"""The new path of a directory, or why it stays where it is."""


@dataclass(slots=True, eq=False)
class Removal:
    """A log on its way out."""

    topic_partition: TopicPartition
    topic_id: str
    suffix: str
    directories: tuple[str, ...]
    settle: Callable[[], object]
    """The step of `OfflineLog.settle`."""
    file_delete_delay_ms: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """The outcomes by directory; a log may be in several log dirs."""

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log dirs in which the removal is still to be carried out."""
        return tuple(dict.fromkeys(os.path.dirname(path) for path in self.directories if path not in self.outcomes))

    def in_log_dir(self, log_dir: str) -> list[str]:
        """The directories of the log that are in this log dir."""
        return [path for path in self.directories if os.path.dirname(path) == log_dir]

    @property
    def targets(self) -> list[str]:
        """The new paths."""
        return [outcome for outcome in self.outcomes.values() if isinstance(outcome, str)]

    @property
    def error(self) -> KafkaStorageError | None:
        """The error for which not all of the log has left."""
        return next(iter(self._errors), None)

    @property
    def _errors(self) -> list[KafkaStorageError]:
        return [outcome for outcome in self.outcomes.values() if not isinstance(outcome, str)]

    @property
    def is_put_off(self) -> bool:
        """A disk had no room or no descriptor for it. It may succeed later, if it is begun again."""
        return any(map(is_shortage, self._errors))


class LogRemoval:
    """Takes logs out of a node. The directories and the table are the log manager's own, and live."""

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
        self._aside = SetAside(machine.file_system, machine.ids)
        self._under_way: ByLogId[Removal] = ByLogId()

    def found(self, set_aside: Mapping[str, str]) -> None:
        """An earlier run set these directories aside: path to suffix."""
        for path, suffix in set_aside.items():
            if suffix == DELETE_DIRECTORY_SUFFIX:
                self.deleted.add(path, self._clock.now_ms())
            else:
                _log.warning("%s was set aside by an earlier run; look at it and delete it", path)
                (self.strays if suffix == STRAY_DIRECTORY_SUFFIX else self.rotten).append(path)

    # -- the three steps -----------------------------------------------------------------------------------------------

    def begin(self, topic_partition: TopicPartition, topic_id: str, suffix: str) -> Removal | None:
        """Take the log out of use without waiting for its disk. None if there is nothing to do: no such log is here, or
        it is on its way out already, under whatever name.

        A deleted log leaves every table at once. Any other is offline until it has left: checkpoints keep its lines.
        """
        self._table.forget_vanished(topic_partition, topic_id)
        topic_id = self._table.id_here(topic_partition, topic_id)
        if self._under_way.get(topic_partition, topic_id) is not None:
            return None
        log = self._table.logs.get(topic_partition, topic_id)
        delay_ms = (log.config if log is not None else self._default_config).file_delete_delay_ms
        if log is not None and suffix == DELETE_DIRECTORY_SUFFIX:
            self._table.drop(log)
            removal = Removal(topic_partition, topic_id, suffix, (log.directory,), log.abandon, delay_ms)
        else:
            if log is not None:
                self._table.take_offline(log, KafkaStorageError(f"{log.directory}: it is being set aside"))
            offline = self._table.offline.get(topic_partition, topic_id)
            if offline is None:
                return None
            removal = Removal(topic_partition, topic_id, suffix, offline.directories, offline.settle, delay_ms)
        for path in removal.directories:
            if not self._in_use(path):  # another process may hold that dir now
                removal.outcomes[path] = _left_behind(path)
        self._under_way.put(topic_partition, topic_id, removal)
        return removal

    def begin_rotten(self, topic_partition: TopicPartition, topic_id: str) -> Removal | None:
        """Begin to set an offline log aside, so that the replica can be built anew from its leader; it is never deleted
        here. None also if the log is not offline, or only because its log dir is."""
        offline = self._table.offline.get_as(topic_partition, topic_id)
        if offline is None or not self._in_use(offline.directory):
            return None
        return self.begin(topic_partition, topic_id, ROTTEN_DIRECTORY_SUFFIX)

    def is_under_way(self, topic_partition: TopicPartition) -> bool:
        """A removal of a log of that name has begun and not ended."""
        return bool(self._under_way.named(topic_partition))

    def holds_up(self, topic_partition: TopicPartition, topic_id: str) -> bool:
        """True if the topic's log can be neither created nor used now: a log of that name is on its way out. A log of
        the topic that is here already waits only for one of which nobody knows whose it is."""
        under_way = self._under_way.named(topic_partition)
        return "" in under_way if self._table.logs.get(topic_partition, topic_id) is not None else bool(under_way)

    def carry_out(self, log_dir: str, removals: Sequence[Removal]) -> dict[Removal, dict[str, Outcome]]:
        """Give all their directories in one log dir their new names, with one sync. Blocks, in any thread; the outcome
        of each directory."""
        for removal in removals:
            removal.settle()  # BEFORE its directory gets another name
        paths = {path: removal for removal in removals for path in removal.in_log_dir(log_dir)}
        directory = self._directories.get(log_dir)
        outcomes: dict[str, Outcome] = {path: _left_behind(path) for path in paths}
        if directory is not None:
            asides = {path: Aside(removal.topic_partition, removal.suffix) for path, removal in paths.items()}
            outcomes = self._aside.take(asides, log_dir)
            for path, removal in paths.items():
                if isinstance(outcomes[path], str):
                    self._forget_lines(directory, removal, path)
        return {removal: {path: outcomes[path] for path in removal.in_log_dir(log_dir)} for removal in removals}

    def failure(self, log_dir: str) -> OSError | None:
        """The error with which the disk of the log dir has failed in `carry_out`: it is not to be used any more."""
        return self._aside.failures.get(log_dir)

    def _forget_lines(self, directory: LogDirectory, removal: Removal, path: str) -> None:
        """The checkpoints forget a rotten log AFTER the rename: without its recovery point, rot would be cut off like a
        torn tail."""
        if removal.suffix == ROTTEN_DIRECTORY_SUFFIX:
            self._table.renamed.add(path)  # BEFORE: no checkpoint writes the lines again
            try:
                directory.forget(removal.topic_partition)
            except OSError as error:  # the next checkpoint leaves them out
                _log.error("%s", storage_error("write a checkpoint", directory.path, error))
        elif removal.suffix == DELETE_DIRECTORY_SUFFIX:
            with contextlib.suppress(OSError):  # harmless: a new log of this name lowers the line to 0
                directory.cleaner_checkpoint.remove(removal.topic_partition)

    def end(self, removal: Removal) -> None:
        """Take the result, once every directory has its outcome: the log has left, or it stays and is offline. A
        removal that is put off may be begun again; any other waits for the next start."""
        topic_partition, topic_id = removal.topic_partition, removal.topic_id
        self._under_way.pop(topic_partition, topic_id)
        for target in removal.targets:
            if removal.suffix == DELETE_DIRECTORY_SUFFIX:
                self.deleted.add(target, self._clock.now_ms() + removal.file_delete_delay_ms)
            else:
                (self.strays if removal.suffix == STRAY_DIRECTORY_SUFFIX else self.rotten).append(target)
        before = self._table.offline.pop(topic_partition, topic_id)
        self._table.renamed.difference_update(removal.directories)  # AFTER it has left the table
        error = removal.error
        if error is None:
            return
        if before is None or str(before.error) != str(error):  # not once more for each time it is begun again
            _log.error("%s could not be set aside, and its files stay where they are: %s", topic_partition, error)
        rest = tuple(path for path in removal.directories if not isinstance(removal.outcomes[path], str))
        stays = self._table.offline if any(map(self._in_use, rest)) else self._table.left_behind
        point = before.recovery_point if before is not None else None
        stays.put(topic_partition, topic_id, OfflineLog(rest[0], error, rest[1:], topic_id, point, removal.settle))

    def _in_use(self, path: str) -> bool:
        """True if the log dir of this path is in use, and not offline."""
        return os.path.dirname(path) in self._directories

    # -- all three at once, for a caller that may block ----------------------------------------------------------------

    def delete(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Delete the log and its files, now; does nothing if the log does not exist."""
        path = self.set_aside_for_deletion(topic_partition, topic_id)
        if path is not None:
            self.deleted.remove(path)

    def set_aside_for_deletion(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Delete the log; its files go after `file.delete.delay.ms`, by `delete_due`. Its new path."""
        return self._now(self.begin(topic_partition, topic_id, DELETE_DIRECTORY_SUFFIX))

    def stray(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Set a log aside, offline or not, under a name that nothing uses; never deleted here. Its new path."""
        return self._now(self.begin(topic_partition, topic_id, STRAY_DIRECTORY_SUFFIX))

    def set_aside_rotten(self, topic_partition: TopicPartition, topic_id: str) -> str | None:
        """Sets a rotten log aside at once, as `begin_rotten` does. Returns its new path."""
        return self._now(self.begin_rotten(topic_partition, topic_id))

    def _now(self, removal: Removal | None) -> str | None:
        """KafkaStorageError when a disk refused it, or when a log dir of it failed before."""
        if removal is None:
            return None
        for log_dir in removal.log_dirs:
            removal.outcomes |= self.carry_out(log_dir, (removal,))[removal]
        self.end(removal)
        if removal.error is not None:
            raise removal.error
        return removal.targets[0]

    # -- files of deleted logs -----------------------------------------------------------------------------------------

    def delete_due(self, now_ms: int, log_dir: str | None = None) -> int:
        """Remove directories of deleted logs whose time has come, a bounded number; how many. Blocks."""
        return self.deleted.delete_due(now_ms, log_dir)

    def remove_deleted(self, path: str) -> None:
        """Remove the directory of a deleted log before its time; blocks."""
        self.deleted.remove(path)

    def __repr__(self) -> str:
        return f"LogRemoval({len(self.strays)} strays, {len(self.rotten)} rotten, {len(self.deleted)} to delete)"


def _left_behind(path: str) -> KafkaStorageError:
    return KafkaStorageError(
        f"{path} stays where it is, because its log dir failed; the first start that finds it there sets it aside as"
        " stray"
    )
