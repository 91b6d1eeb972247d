"""Copies of logs that move to another log dir of the node: created, filled, dropped, and put in the log's place.

A copy is a log by itself (KIP-113 calls it the future log), filled by the batches of the log in use, as a follower is
filled by its leader's. It counts for nothing until `swap`. See `future_directories.py` for the names, the order of the
renames, and what a start does after a crash at any of them.

Everything here blocks. `swap` is for a thread, while nothing reads, appends to, or flushes the log by the loop; the
others may be called in any thread. Not here: when, and how fast (`broker/jobs/log_dir_moves/`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import InvalidTopicError, KafkaStorageError, PenstockError
from penstock.record.batch import iter_headers
from penstock.threads import Threads
from penstock.types import EpochEntry, TopicPartition
from storage.append.producer_state import ProducerEntry
from storage.disk.disk_errors import is_shortage, storage_error
from storage.disk.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    MAX_NAME_CHARACTERS,
    MOVED_DIRECTORY_SUFFIX,
    move_directory,
)
from storage.disk.file_system import FileSystem, remove_tree
from storage.disk.machine import Machine
from storage.log.log import Log
from storage.log.partition_metadata import read_topic_id, write_topic_id
from storage.log_config import LogConfig
from storage.log_dirs.deleted_logs import DeletedLogs
from storage.log_dirs.future_directories import MoveDirectory, MoveGoingOn
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_opener import LogOpener
from storage.recovery.recovery import LastKnown

_log = logging.getLogger(__name__)

UNDO_PAUSE_SECONDS = 0.5
UNDO_TRIES_MAX = 20
"""For lack of room or descriptors: 10 s, in which the partition is held. A swap may take three times as long in all."""


@dataclass(frozen=True, slots=True)
class SwapOutcome:
    """How a swap ended. The log that is in use from now on: the copy in its new place, or the old one again if the swap
    was undone; None where a disk refused that as well. Then the next start finishes or undoes the swap."""

    log: Log | None
    error: Exception | None = None
    failed_dir: str = ""
    """The log dir whose disk refused; "" without an error of a disk."""
    gone: str | None = None
    """The old directory, which may be deleted."""


class SwapWatch:
    """Where a swap in a thread stands, for those that wait for it: a disk may hang. Used in any thread."""

    def __init__(self, threads: Threads, log_dir: str) -> None:
        """`log_dir` is that of the thread, which may stand in a call for another move."""
        self._lock = threads.lock()
        """Held for a moment only."""
        self._at: str | None = log_dir
        self._is_given_up = False

    def enter(self, log_dir: str) -> None:
        """The next calls are to this log dir's disk. KafkaStorageError if the swap was given up: no name changes any
        more, because others may use the log dirs by now."""
        with self._lock:
            if self._is_given_up:
                raise KafkaStorageError("the swap was given up, because a disk did not answer; a start settles it")
            self._at = log_dir

    def ended(self) -> None:
        with self._lock:
            self._at = None

    @property
    def log_dir(self) -> str | None:
        """The log dir to whose disk the swap's calls go now; None once it has ended."""
        return self._at

    def give_up(self) -> str | None:
        """Wait for the swap no longer; the log dir that does not answer, or None: the swap has ended."""
        with self._lock:
            self._is_given_up = self._at is not None
            return self._at

    def __repr__(self) -> str:
        return f"SwapWatch({self._at or 'nowhere'})"


class FutureLogs:
    """One for a node. The directories are the log manager's own, and live."""

    def __init__(
        self, machine: Machine, directories: Mapping[str, LogDirectory], opener: LogOpener, deleted: DeletedLogs
    ) -> None:
        self._fs, self._ids, self._clock = machine.file_system, machine.ids, machine.clock
        self._threads = machine.threads
        self._directories, self._opener, self._deleted = directories, opener, deleted
        self.going_on: dict[TopicPartition, MoveGoingOn] = {}
        """Moves that an earlier run began."""

    def name(self, topic_partition: TopicPartition, log_dir: str) -> MoveDirectory:
        """A new copy's directory; InvalidTopicError where the file system has no room for its name."""
        side = MoveDirectory(log_dir, topic_partition, self._ids.new_id())
        if len(move_directory(topic_partition, side.unique, FUTURE_DIRECTORY_SUFFIX)) > MAX_NAME_CHARACTERS:
            raise InvalidTopicError(f"{topic_partition} has too long a name to move between log dirs")
        return side

    def create(self, side: MoveDirectory, topic_id: str) -> None:
        """The copy's directory, durably: a start goes on with the move."""
        self._must_be_free(side)
        try:
            self._fs.mkdir(side.future)
            write_topic_id(self._fs, side.future, topic_id)
            self._fs.fsync_dir(side.future)
            self._fs.fsync_dir(side.log_dir)
        except OSError as error:
            with contextlib.suppress(OSError):
                remove_tree(self._fs, side.future)
            raise storage_error("create the copy of a log", side.future, error) from error

    def _must_be_free(self, side: MoveDirectory) -> None:
        try:
            is_taken = self._fs.exists(side.home)
        except OSError as error:
            raise storage_error("look for a log", side.home, error) from error
        if is_taken:
            raise KafkaStorageError(f"{side.home} is there already, and is not in use; move it away first")

    def open(self, side: MoveDirectory, topic_id: str, config: LogConfig, flushed: int | None) -> Log:
        """Open the copy. `flushed`: it was closed in order, and all of it is flushed up to there; None: not known.

        KafkaStorageError if it is of another topic: one that was deleted and made anew while the node was down."""
        if read_topic_id(self._fs, side.future) != topic_id:
            raise KafkaStorageError(f"{side.future} is no copy of the topic that has this name now")
        known = LastKnown(recovery_point=0) if flushed is None else LastKnown(True, flushed)
        return self._opener.open_as(side.future, side.topic_partition, topic_id, config, known, None)

    def drop(self, side: MoveDirectory) -> None:
        """Give the copy up, durably; its files go later. After a shortage it goes on where it ended."""
        target = side.path(DELETE_DIRECTORY_SUFFIX)
        try:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rename(side.future, target)
            if self._fs.exists(target):
                self._fs.fsync_dir(side.log_dir)
                self._deleted.add(target, self._clock.now_ms())
        except OSError as error:
            raise storage_error("drop the copy of a log", side.future, error) from error

    # -- the swap ------------------------------------------------------------------------------------------------------

    def make_ready(self, side: MoveDirectory) -> None:
        """Refuses, before the swap, whatever can be refused then: the place must be free, and no checkpoint may claim
        anything of it."""
        target = self._directories.get(side.log_dir)
        if target is None:
            raise KafkaStorageError(f"{side.log_dir} has failed")
        self._must_be_free(side)
        try:
            target.lower_checkpoints(side.topic_partition, 0)  # of an earlier log with this name
        except OSError as error:
            raise storage_error("write a checkpoint", target.path, error) from error

    def watch(self, side: MoveDirectory) -> SwapWatch:
        """For one swap."""
        return SwapWatch(self._threads, side.log_dir)

    def swap(self, log: Log, side: MoveDirectory, watch: SwapWatch) -> SwapOutcome:
        """The copy, closed, durable, made ready and equal to `log`, takes its place. `log` was abandoned without
        waiting, on the loop."""
        try:
            watch.enter(log.log_dir)
            log.abandon()  # BEFORE its directory gets another name
            source, target = self._directories.get(log.log_dir), self._directories.get(side.log_dir)
            if source is None:
                return SwapOutcome(None, KafkaStorageError(f"{log.log_dir} has failed"))
            return _Swap(self._fs, self._opener, log, side, source, watch, self._threads.pause).run(target)
        finally:
            watch.ended()

    def __repr__(self) -> str:
        return f"FutureLogs({len(self.going_on)} begun by an earlier run)"


class _Swap:
    """One swap, in a thread; see `future_directories.py` for its steps."""

    def __init__(
        self,
        fs: FileSystem,
        opener: LogOpener,
        log: Log,
        side: MoveDirectory,
        source: LogDirectory,
        watch: SwapWatch,
        pause: Callable[[float], None],
    ) -> None:
        self._fs, self._opener, self._watch, self._pause = fs, opener, watch, pause
        self._log, self._side, self._source = log, side, source
        self._old = side._replace(log_dir=source.path)
        self._renamed: list[tuple[LogDirectory, str, str]] = []
        self._has_own_name: set[str] = set()
        """Renamed directories that have their own name again, maybe not durably yet."""
        self._at = source

    def run(self, target: LogDirectory | None) -> SwapOutcome:
        log = self._log
        moved = self._old.path(MOVED_DIRECTORY_SUFFIX)
        try:
            if target is None:
                raise KafkaStorageError(f"{self._side.log_dir} has failed")
            self._rename(self._source, log.directory, moved)
            self._rename(target, self._side.future, self._side.home)
            new = self._open(target, self._side.home, LastKnown(True, log.log_end_offset, log.log_start_offset))
        except (OSError, PenstockError) as error:
            return self._undone(error)
        gone = self._old.path(DELETE_DIRECTORY_SUFFIX)
        try:
            self._rename(self._source, moved, gone)
        except (OSError, KafkaStorageError) as error:
            return SwapOutcome(new, error, self._source.path)
        with contextlib.suppress(OSError):  # harmless: a new log of this name lowers the line to 0
            self._source.cleaner_checkpoint.remove(log.topic_partition)
        return SwapOutcome(new, gone=gone)

    def _rename(self, directory: LogDirectory, source: str, target: str) -> None:
        """Durable when it returns."""
        self._at = directory
        self._watch.enter(directory.path)
        self._fs.rename(source, target)
        self._renamed.append((directory, source, target))
        self._fs.fsync_dir(directory.path)

    def _open(self, directory: LogDirectory, path: str, known: LastKnown) -> Log:
        log = self._log
        self._watch.enter(directory.path)
        new = self._opener.open_as(path, log.topic_partition, log.topic_id, log.config, known, directory)
        new.update_config(log.config, log.flush_policy)
        return new

    def _undone(self, error: Exception) -> SwapOutcome:
        """Every log has its own name again, or the next start sees to that."""
        failed_dir = self._at.path if _is_of_disk(error) else ""
        _log.error("%s: it does not move: %s", self._log.directory, error)
        for tries_left in reversed(range(UNDO_TRIES_MAX)):
            try:
                return SwapOutcome(self._taken_back(), error, failed_dir)
            except (OSError, PenstockError) as worse:
                _log.error("%s: taking the move back failed: %s", self._log.directory, worse)
                if not (tries_left and is_shortage(worse)):
                    break
            self._pause(UNDO_PAUSE_SECONDS)
        return SwapOutcome(None, error, failed_dir)

    def _taken_back(self) -> Log:
        """Goes on where an earlier try ended. A shortage is none of a sync, which is never tried again."""
        while self._renamed:
            directory, source, target = self._renamed[-1]
            self._watch.enter(directory.path)
            if source not in self._has_own_name:
                self._fs.rename(target, source)
                self._has_own_name.add(source)
            self._fs.fsync_dir(directory.path)
            self._renamed.pop()
        known = LastKnown(False, self._log.recovery_point, self._log.log_start_offset)
        return self._open(self._source, self._log.directory, known)


def _is_of_disk(error: Exception) -> bool:
    return isinstance(error if isinstance(error, OSError) else error.__cause__, OSError)


# -- filling -----------------------------------------------------------------------------------------------------------


class OfLog(NamedTuple):
    """The facts that a copy takes over from its log, besides batches; taken on the loop."""

    log_start_offset: int
    epoch_entries: tuple[EpochEntry, ...]
    producers: dict[int, ProducerEntry] | None
    """None: the log would have to read its batches for it, as the copy has."""

    @classmethod
    def of(cls, log: Log) -> OfLog:
        producers = None if log.producers.is_stale else log.producers.known.copy()
        return cls(log.log_start_offset, log.epoch_entries, producers)


def append_copy(copy: Log, records: bytes, log_start_offset: int) -> None:
    """Append batches of the log to its copy. The first may begin below the log start of both, which is then inside it
    (`Partition.append_as_follower`)."""
    end = copy.log_end_offset
    first = next((header for _, header in iter_headers(records)), None)
    rebased = (
        first is not None
        and first.base_offset < end < first.next_offset
        and end == max(log_start_offset, copy.log_start_offset)
    )
    if rebased and first is not None:
        copy.truncate_fully_and_start_at(first.base_offset)
    copy.append_as_follower(records)
    if rebased:
        copy.advance_log_start(end)


def complete_copy(copy: Log, state: OfLog) -> None:
    """The copy has every batch of the log: it gets what else there is to it, and is closed, durably."""
    log_start_offset, epoch_entries, producers = state
    if copy.log_start_offset < log_start_offset:
        copy.advance_log_start(log_start_offset)
    if epoch_entries and epoch_entries[-1].epoch > copy.latest_epoch:
        newest = epoch_entries[-1]
        copy.assign_epoch(newest.epoch, newest.start_offset)
    if producers is not None:
        copy.producers.take_over(producers)
    copy.close()
