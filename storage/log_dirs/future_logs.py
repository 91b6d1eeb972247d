"""Copies of logs that move to another log dir of the node: created, filled, dropped, and put in the log's place.

A copy is a log by itself (KIP-113 calls it the future log), filled by the batches of the log in use, as a follower is
filled by its leader's. It counts for nothing until `swap`. See `future_directories.py` for the names, the order of the
renames, and what a start does after a crash at any of them.

Everything here blocks. `swap` is for a thread, while nothing reads, appends to, or flushes the log by the loop; the
others may be called in any thread. Not here: the steps of a swap (`log_swap.py`); when, and how fast
(`broker/jobs/log_dir_moves/`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import InvalidTopicError, KafkaStorageError
from penstock.record.batch import iter_headers
from penstock.types import EpochEntry, TopicPartition
from storage.append.producer_state import ProducerEntry
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    MAX_NAME_CHARACTERS,
    move_directory,
)
from storage.disk.file_system import remove_tree
from storage.disk.machine import Machine
from storage.disk.partition_metadata import read_topic_id, write_topic_id
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.log_dirs.deleted_logs import DeletedLogs
from storage.log_dirs.future_directories import MoveDirectory, MoveGoingOn
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_opener import LogOpener
from storage.log_dirs.log_swap import Swap, SwapOutcome, SwapWatch
from storage.recovery.recovery import LastKnown

_log = logging.getLogger(__name__)


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
        """The watch of one swap."""
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
            return Swap(
                fs=self._fs,
                opener=self._opener,
                log=log,
                side=side,
                source=source,
                watch=watch,
                pause=self._threads.pause,
            ).run(target)
        finally:
            watch.ended()

    def __repr__(self) -> str:
        return f"FutureLogs({len(self.going_on)} begun by an earlier run)"


# -- filling -----------------------------------------------------------------------------------------------------------


class OfLog(NamedTuple):
    """The facts that a copy takes over from its log, besides batches; taken on the loop."""

    log_start_offset: int
    epoch_entries: tuple[EpochEntry, ...]
    producers: dict[int, ProducerEntry] | None
    """The producers of the log; None if the log would have to read its batches for them, as the copy has."""

    @classmethod
    def of(cls, log: Log) -> OfLog:
        producers = None if log.producers.is_stale else log.producers.known.copy()
        return cls(log.log_start_offset, log.epoch_entries, producers)


def append_copy(copy: Log, records: bytes, local_start: int) -> None:
    """Append batches of the log to its copy. The first may begin below the local start of both, which is then inside it
    (as in broker/replication/follower/follower_log.py)."""
    end = copy.log_end_offset
    first = next((header for _, header in iter_headers(records)), None)
    rebased = (
        first is not None
        and first.base_offset < end < first.next_offset
        and end == max(local_start, copy.local_log_start_offset)
    )
    if rebased and first is not None:
        copy.truncate_fully_and_start_at(first.base_offset)
    copy.append.as_follower(records)
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
