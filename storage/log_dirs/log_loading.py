"""Finds and opens all logs of a node at start: the log dirs at the same time, each with a few threads, with progress.

Damage of one log, or a disk error in its own files, is that log's result and does not affect the others. A lack of
descriptors would affect one log after another, so it refuses the start; so does an unexpected error. The results do not
depend on the number or the order of threads. With one thread for each dir, the caller's thread does everything, in
order.

`log_opener.py` and `recovery.py` open one log; `log_manager.py` knows what the results mean.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from typing import NamedTuple

from penstock.clock import Clock
from penstock.errors import InvariantViolation, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Queue, Thread, Threads
from penstock.types import TopicPartition
from storage.disk.disk_errors import OUT_OF_DESCRIPTORS, storage_error
from storage.disk.file_names import (
    parse_partition_directory,
    set_aside_suffix,
)
from storage.disk.file_system import FileSystem
from storage.log.log import Log
from storage.log_dirs.future_directories import FoundMoves, MoveGoingOn, MovesAtStart
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_manager_config import LoadProgress, LogManagerConfig
from storage.log_dirs.unfinished_logs import TopicIdOf, UnfinishedLogs, are_of_different_topics

_log = logging.getLogger(__name__)

PROGRESS_INTERVAL_MS = 1000
"""Often enough to show progress in the node's log; a short start has one line for each dir."""


class FoundLog(NamedTuple):
    """A log that is to be opened."""

    directory: LogDirectory
    topic_partition: TopicPartition


Opened = Log | PenstockError
"""The result for one log: the log, or why it is offline."""


@dataclass(slots=True)
class Findings:
    """The content of the log dirs, by the names in them."""

    logs: list[FoundLog] = field(default_factory=list)
    copies: dict[TopicPartition, list[LogDirectory]] = field(default_factory=dict)
    """Partitions of one topic that are in several log dirs: it is not known which directory is the log."""
    set_aside: dict[str, str] = field(default_factory=dict)
    """Path to suffix, of directories that were set aside by an earlier run."""
    cannot_go: dict[TopicPartition, tuple[str, OSError]] = field(default_factory=dict)
    """Directories that count for nothing, but cannot be removed (`unfinished_logs.py`): the path, and why."""
    failed: dict[str, OSError] = field(default_factory=dict)
    """Log dirs that cannot be listed."""
    going_on: dict[TopicPartition, MoveGoingOn] = field(default_factory=dict)
    """Moves between log dirs that an earlier run began."""


def find_logs(
    fs: FileSystem,
    directories: Sequence[LogDirectory],
    topic_id_of: TopicIdOf,
    *,
    all_dirs_answer: bool = True,
    gave_up_dirs: bool = False,
) -> Findings:
    """The logs in the log dirs, and the directories that are no log in use. Unknown names are not touched. A log that
    was never in use goes if another log dir has the log, or may have it: one that does not answer, was given up, or has
    it under another name. Logs with one name but different topic ids are different logs: a dir that had failed may come
    back with the log of a topic that was deleted meanwhile and made anew."""
    findings, moves = Findings(), FoundMoves()
    paths: dict[TopicPartition, list[str]] = {}
    for directory in directories:
        try:
            for topic_partition in _list(fs, directory.path, findings.set_aside, moves):
                paths.setdefault(topic_partition, []).append(directory.path)
        except OSError as error:
            refuse_without_descriptors("list the log dir", directory.path, error)
            findings.failed[directory.path] = error
    at_start = MovesAtStart(fs, paths, findings.set_aside, all_dirs_answer and not findings.failed, findings.failed)
    is_partial = gave_up_dirs or not at_start.all_dirs_answer
    unfinished = UnfinishedLogs(fs, topic_id_of, at_start.logs_in(moves.moved), is_partial=is_partial)
    findings.cannot_go = unfinished.cannot_go
    by_path = {directory.path: directory for directory in directories}
    for topic_partition, found in paths.items():
        found[:] = [at.path for at in unfinished.without(topic_partition, [by_path[path] for path in found])]
    findings.going_on = at_start.settle(moves)
    for topic_partition, found in paths.items():
        at = unfinished.without(topic_partition, [by_path[path] for path in found])
        if at:  # the log, after all
            findings.cannot_go.pop(topic_partition, None)
        if len(at) > 1 and not are_of_different_topics(topic_partition, at, topic_id_of):
            findings.copies[topic_partition] = at
        else:
            here = (directory for directory in at if directory.path not in findings.failed)
            findings.logs += (FoundLog(directory, topic_partition) for directory in here)
    order = {directory.path: at for at, directory in enumerate(directories)}
    findings.logs.sort(key=lambda log: order[log.directory.path])
    return findings


def _list(fs: FileSystem, path: str, set_aside: dict[str, str], moves: FoundMoves) -> Iterator[TopicPartition]:
    for name, is_directory in fs.entries(path).items():
        if not is_directory:
            continue
        topic_partition = parse_partition_directory(name)
        if topic_partition is not None:
            yield topic_partition
        elif (suffix := set_aside_suffix(name)) is not None:
            set_aside[f"{path}/{name}"] = suffix
        else:
            moves.add(path, name)


def refuse_without_descriptors(action: str, path: str, error: OSError) -> None:
    """Raise the typed error if the error is a lack of descriptors."""
    if error.errno in OUT_OF_DESCRIPTORS:
        raise storage_error(action, path, error) from error


class LogLoader:
    """One loading; see the module."""

    def __init__(self, found: Sequence[FoundLog], open_log: Callable[[FoundLog], Log], threads: Threads) -> None:
        """`found` is in order of its log dirs."""
        self._found = found
        self._open_log = open_log
        self._opened: dict[int, Opened] = {}
        self._failures: dict[int, BaseException] = {}
        self._threads = threads
        self._stopped = threads.event()

    def load(self, config: LogManagerConfig, clock: Clock) -> list[Opened]:
        """The result of each log, in the order of `found`. An error that refuses the start is raised after all are
        closed."""
        reporter = _Reporter(self._found, config.progress, clock)
        try:
            if config.recovery_threads == 1:
                self._run_here(reporter)
            else:
                self._run_in_threads(config.recovery_threads, reporter)
            for _, failure in sorted(self._failures.items()):
                raise failure
            return [opened for _, opened in sorted(self._opened.items())]
        except BaseException:
            for opened in self._opened.values():
                if isinstance(opened, Log):
                    opened.abandon()
            raise

    def _run_here(self, reporter: _Reporter) -> None:
        for at in range(len(self._found)):
            if not self._open(at):
                return
            reporter.opened(at, self._opened[at])

    def _run_in_threads(self, threads: int, reporter: _Reporter) -> None:
        done: Queue[int | None] = self._threads.queue()

        def work(todo: deque[int]) -> None:
            while True:
                try:
                    at = todo.popleft()
                except IndexError:
                    return
                done.put(at if self._open(at) else None)

        workers: list[Thread] = []
        try:
            for path, group in groupby(range(len(self._found)), key=lambda at: self._found[at].directory.path):
                todo = deque(group)
                for _ in range(min(threads, len(todo))):
                    worker = self._threads.start(f"load {path}", partial(work, todo))
                    workers.append(worker)
            for _ in self._found:
                opened = done.get()
                if opened is None:
                    return
                reporter.opened(opened, self._opened[opened])
        finally:
            self._stopped.set()
            for worker in workers:
                worker.join()

    def _open(self, at: int) -> bool:
        """Opens one log; False when the loading must end."""
        if self._stopped.is_set():
            return False
        try:
            self._opened[at] = self._open_one(self._found[at])
        except BaseException as failure:
            self._failures[at] = failure
            self._stopped.set()
        return at in self._opened

    def _open_one(self, found: FoundLog) -> Opened:
        try:
            return self._open_log(found)
        except InvariantViolation:
            raise
        except PenstockError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in OUT_OF_DESCRIPTORS:
                raise
            return error
        except OSError as error:
            path = f"{found.directory.path}/{found.topic_partition}"
            refuse_without_descriptors("open the log", path, error)
            return storage_error("open the log", path, error)


class _Reporter:
    """Counts, and tells of each dir at the start, at most once a second, and when it is done."""

    def __init__(self, found: Sequence[FoundLog], progress: Callable[[LoadProgress], None], clock: Clock) -> None:
        self._found, self._progress, self._clock = found, progress, clock
        self._totals: dict[str, int] = {}
        for log in found:
            self._totals[log.directory.path] = self._totals.get(log.directory.path, 0) + 1
        self._done = dict.fromkeys(self._totals, 0)
        self._bytes = dict.fromkeys(self._totals, 0)
        self._reported_ms = dict.fromkeys(self._totals, clock.now_ms())
        for directory in {log.directory.path: log.directory for log in found}.values():
            self._report(directory)

    def opened(self, at: int, opened: Opened) -> None:
        directory = self._found[at].directory
        path = directory.path
        self._done[path] += 1
        if isinstance(opened, Log):
            self._bytes[path] += opened.size_bytes
        now_ms = self._clock.now_ms()
        if self._done[path] == self._totals[path] or now_ms - self._reported_ms[path] >= PROGRESS_INTERVAL_MS:
            self._reported_ms[path] = now_ms
            self._report(directory)

    def _report(self, directory: LogDirectory) -> None:
        path = directory.path
        progress = LoadProgress(path, self._done[path], self._totals[path], self._bytes[path], directory.was_clean)
        self._progress(progress)
