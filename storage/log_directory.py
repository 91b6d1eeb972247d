"""One log dir: its lock, its clean-shutdown marker, and the three checkpoints about all logs in it.

    recovery-point-offset-checkpoint   below it everything was flushed; recovery starts there
    replication-offset-checkpoint      high watermarks
    log-start-offset-checkpoint        log starts that are not the beginning of a segment

A recovery point in the file is a claim that may only be too low. A truncation therefore lowers it BEFORE any record
goes, else the next start would take the missing records for rot. The checkpoint job may run in another thread; the lock
here keeps it and a truncation apart. Not here: the logs (`log_manager.py`), meta.properties.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from penstock.errors import CorruptFileError, MetaPropertiesError
from penstock.types import TopicPartition
from storage.checkpoint_file import read_offsets, write_offsets
from storage.clean_shutdown import take_marker, write_marker
from storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_directory,
)
from storage.file_system import FileSystem
from storage.recovery import LastKnown

_log = logging.getLogger(__name__)


class LogDirectory:
    """A log dir that this process holds."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Lock the dir, and read what it knows. The marker is gone afterwards."""
        self._fs = fs
        self.path = path
        try:
            self._lock_fd = fs.lock(f"{path}/{LOCK}")
        except BlockingIOError as error:
            raise MetaPropertiesError(f"{path} is in use by another process (it holds {path}/{LOCK})") from error
        self._mutex = threading.Lock()
        self.marker_epoch = take_marker(fs, path)
        """The broker epoch of the clean stop before this start; None after any other stop."""
        self._recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT) or {}
        self._log_starts = self._read(LOG_START_CHECKPOINT) or {}
        if self._recovery_points is None and not any(map(parse_partition_directory, fs.listdir(path))):
            self._recovery_points = {}
            write_offsets(fs, self._file(RECOVERY_POINT_CHECKPOINT), {})

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _read(self, name: str) -> dict[TopicPartition, int] | None:
        try:
            return read_offsets(self._fs, self._file(name))
        except CorruptFileError as damage:
            _log.warning("%s; going on without it", damage)
            return None

    @property
    def was_clean(self) -> bool:
        return self.marker_epoch is not None

    def last_known(self, topic_partition: TopicPartition) -> LastKnown:
        """A log without a line in a good checkpoint is younger than the checkpoint: nothing of it need be flushed."""
        points = self._recovery_points
        return LastKnown(
            clean=self.was_clean,
            recovery_point=None if points is None else points.get(topic_partition, 0),
            log_start_offset=self._log_starts.get(topic_partition, 0),
        )

    def checkpoint_recovery_points(
        self, read: Callable[[], Mapping[TopicPartition, int]], offline: Collection[TopicPartition]
    ) -> None:
        """Write the recovery points that `read` returns; it is called while no truncation can come between.

        Logs that are `offline` keep theirs: without it, the next start would take their rot for a torn tail. Where it
        is not known, because there is no good checkpoint, there must be none until they are repaired or set aside.
        """
        with self._mutex:
            if offline and self._recovery_points is None:
                return
            points = {tp: (self._recovery_points or {}).get(tp, 0) for tp in offline} | dict(read())
            if points != self._recovery_points:
                write_offsets(self._fs, self._file(RECOVERY_POINT_CHECKPOINT), points)
                self._recovery_points = points

    def checkpoint_log_starts(
        self, read: Callable[[], Mapping[TopicPartition, int]], offline: Collection[TopicPartition]
    ) -> None:
        with self._mutex:
            starts = {tp: offset for tp, offset in self._log_starts.items() if tp in offline} | dict(read())
            if starts != self._log_starts:
                write_offsets(self._fs, self._file(LOG_START_CHECKPOINT), starts)
                self._log_starts = starts

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        with self._mutex:
            if high_watermarks != self.high_watermarks:
                write_offsets(self._fs, self._file(HIGH_WATERMARK_CHECKPOINT), high_watermarks)
                self.high_watermarks = dict(high_watermarks)

    def lower_checkpoints(self, topic_partition: TopicPartition, offset: int) -> None:
        """Make durable that no checkpoint claims more than `offset` for the log: it is truncated, or created anew."""
        with self._mutex:
            points = self._recovery_points
            if points is not None and points.get(topic_partition, 0) > offset:
                lowered = {**points, topic_partition: offset}
                write_offsets(self._fs, self._file(RECOVERY_POINT_CHECKPOINT), lowered)
                self._recovery_points = lowered
            if self._log_starts.get(topic_partition, 0) > offset:
                starts = {**self._log_starts, topic_partition: offset}
                write_offsets(self._fs, self._file(LOG_START_CHECKPOINT), starts)
                self._log_starts = starts

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        """Let the dir go; with `clean`, everything in it was flushed and checkpointed BEFORE."""
        try:
            if clean:
                write_marker(self._fs, self.path, broker_epoch)
        finally:
            self._fs.close(self._lock_fd)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, marker epoch {self.marker_epoch})"
