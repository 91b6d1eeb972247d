"""Writes and reads the checkpoints of all log dirs: puts each log's line into its dir's file.

The methods that write may run in any thread while the loop changes the logs: they read single numbers of a log, each of
which may be too low but not too high. If one dir cannot be written, the others are written nevertheless. A disk may
hang, so `try_…` writes one dir, for a caller that has a thread for each.

The broker has the schedule; the files are in `log_directory.py`; `storage/log/log_cut.py` lowers checkpoints before
a cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_shortage, storage_error
from storage.log.log import Log
from storage.log.log_types import OfflineLog
from storage.log_dirs.log_directory import LogDirectory, Offsets
from storage.log_dirs.log_table import LogId, LogTable


class LogCheckpoints:
    """Writes and reads the checkpoints of all log dirs. The directories and the table are the log manager's own, and
    live."""

    def __init__(self, directories: Mapping[str, LogDirectory], table: LogTable) -> None:
        self._directories, self._table = directories, table

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log dirs in use."""
        return tuple(self._directories)

    def write_recovery_points(self) -> None:
        self._for_each_directory(self.write_recovery_points_of)

    def try_recovery_points(self, log_dir: str) -> KafkaStorageError | None:
        """Writes the recovery points of one dir; returns the error when it did not take them."""
        return self._failure(log_dir, self.write_recovery_points_of)

    def write_recovery_points_of(self, directory: LogDirectory) -> None:
        def points() -> dict[LogId, int]:
            in_use = {LogId.of(log): log.claimed_recovery_point for log in self._table.logs_in(directory.path)}
            known = self._offline_in(directory).items()  # AFTER: a log that goes offline meanwhile is in either
            return {log_id: at for log_id, log in known if (at := log.recovery_point) is not None} | in_use

        directory.checkpoint_recovery_points(
            points, lambda: self._offline_in(directory).keys() | self._vanished_from(directory)
        )

    def write_recovered(self, directory: LogDirectory) -> None:
        """Writes the checkpoints of a log dir whose logs were recovered, and not appended to since. A power cut takes
        records that a follower had not flushed, also below its high watermark; what gets their offsets next is not
        committed by that."""
        logs = self._table.logs_in(directory.path)
        directory.lower_high_watermarks({log.topic_partition: log.log_end_offset for log in logs})
        self.write_recovery_points_of(directory)

    def write_log_starts(self) -> None:
        self._for_each_directory(self.write_log_starts_of)

    def try_log_starts(self, log_dir: str) -> KafkaStorageError | None:
        """Writes the log starts of one dir; returns the error when it did not take them."""
        return self._failure(log_dir, self.write_log_starts_of)

    def commit_log_starts(self, log_dir: str) -> KafkaStorageError | None:
        """Writes the log starts of one dir for a deletion of records that waits for it. They may be deleted for the
        room that they take: on a disk that is short of it, the files of removed segments go BEFORE the checkpoint is
        written."""
        return self._failure(log_dir, self._make_room_in) or self.try_log_starts(log_dir)

    def _make_room_in(self, directory: LogDirectory) -> None:
        logs = [log for log in self._table.logs_in(directory.path) if log.full.has_removed_files]
        if not logs or not directory.is_short_of_room:
            return
        for log in logs:
            try:
                log.full.run_file_changes()
                log.full.delete_removed_files()
            except OSError as error:
                if not is_shortage(error):
                    raise

    def write_log_starts_of(self, directory: LogDirectory) -> None:
        """Writes only the log starts that a node could not find by itself when it starts: those inside a segment, and
        those above segments whose removal is not durable yet."""
        directory.checkpoint_log_starts(
            lambda: {
                log.topic_partition: log.written_start.claimed
                for log in self._table.logs_in(directory.path)
                if self._needs_line(log)
            },
            lambda: self._names_offline_in(directory),
        )

    @staticmethod
    def _needs_line(log: Log) -> bool:
        """The order matters: a segment is queued for removal BEFORE it leaves the list (`FullSegments.remove_oldest`).
        So if it is gone from the list, its removal is in the queue or on the disk."""
        begins_at = log.segments[0].base_offset
        return log.written_start.claimed > begins_at or log.full.has_file_changes

    def expect_cut(self, log: Log, offset: int, is_wanted: Callable[[], bool]) -> None:
        """The log will be cut at `offset`; see `LogDirectory.expect_cut`. Does nothing if its dir is out of use."""
        if (directory := self._directories.get(log.log_dir)) is not None:
            directory.expect_cut(log.topic_partition, offset, is_wanted)

    def write_high_watermarks(self, read: Callable[[], Mapping[LogId, int]]) -> None:
        """Write the high watermarks that `read` returns; a log that is not in the mapping keeps its line."""
        self._for_each_directory(lambda directory: self._write_high_watermarks_of(directory, read))

    def try_high_watermarks(self, log_dir: str, read: Callable[[], Mapping[LogId, int]]) -> KafkaStorageError | None:
        """Writes the high watermarks of one dir; returns the error when it did not take them."""
        return self._failure(log_dir, lambda directory: self._write_high_watermarks_of(directory, read))

    def _write_high_watermarks_of(self, directory: LogDirectory, read: Callable[[], Mapping[LogId, int]]) -> None:
        def lines() -> Offsets:
            known, before = read(), directory.high_watermarks
            logs = {log.topic_partition: log.topic_id for log in self._table.logs_in(directory.path)}
            offsets = {tp: known.get(LogId(tp, topic_id), before.get(tp)) for tp, topic_id in logs.items()}
            return {tp: offset for tp, offset in offsets.items() if offset is not None}

        directory.checkpoint_high_watermarks(lines, lambda: self._names_offline_in(directory))

    def high_watermarks(self) -> dict[LogId, int]:
        """The last written high watermarks, each at most its log's end."""
        return {
            LogId.of(log): min(directory.high_watermarks[log.topic_partition], log.log_end_offset)
            for directory in self._directories.values()
            for log in self._table.logs_in(directory.path)
            if log.topic_partition in directory.high_watermarks
        }

    def _vanished_from(self, directory: LogDirectory) -> set[LogId]:
        return {key for key, path in self._table.vanished.items() if os.path.dirname(path) == directory.path}

    def _offline_in(self, directory: LogDirectory) -> dict[LogId, OfflineLog]:
        return {
            key: log
            for key, log in self._table.offline.items()
            if any(os.path.dirname(path) == directory.path for path in set(log.directories) - self._table.renamed)
        }

    def _names_offline_in(self, directory: LogDirectory) -> set[TopicPartition]:
        return {key.topic_partition for key in self._offline_in(directory)}

    def _for_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        """Writes every dir, then raises the first error."""
        failures = [self._failure(log_dir, write) for log_dir in tuple(self._directories)]
        for failure in filter(None, failures):
            raise failure

    def _failure(self, log_dir: str, write: Callable[[LogDirectory], None]) -> KafkaStorageError | None:
        """Write to the dir, unless it is out of use; returns the error if the write failed."""
        directory = self._directories.get(log_dir)
        if directory is None:
            return None
        try:
            write(directory)
        except OSError as error:
            return storage_error("write a checkpoint", log_dir, error)
        return None

    def __repr__(self) -> str:
        return f"LogCheckpoints({', '.join(self._directories)})"
