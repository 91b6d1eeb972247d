"""Opens all logs of a node's log dirs at start: the dirs beside each other, each with a few threads, with progress.

What is wrong with one log takes only that log out: damage, and a disk error in its own files, become its result. A lack
of descriptors would take out one after another, so it refuses the start; so does what nobody expects, a bug. The
results do not depend on the number of threads, nor on who was first. With one thread for each dir everything happens in
the caller's thread, in order.

Not here: how one log is opened (`log_opener.py`, `recovery.py`), what the results mean (`log_manager.py`).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from queue import SimpleQueue
from typing import NamedTuple

from penstock.clock import Clock
from penstock.errors import InvariantViolation, PenstockError
from penstock.types import TopicPartition
from storage.disk_errors import storage_error
from storage.file_names import parse_partition_directory, set_aside_suffix
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.log_manager_config import LoadProgress, LogManagerConfig

PROGRESS_INTERVAL_MS = 1000
"""A person who looks at the node's log sees that it goes on; a short start says it once for each dir."""
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class LogDirContents(NamedTuple):
    """What stands in a log dir, by the names."""

    partitions: list[TopicPartition]
    set_aside: dict[str, str]
    """Path to suffix, of directories that were set aside by an earlier run."""


class FoundLog(NamedTuple):
    """A log that is to be opened."""

    directory: LogDirectory
    topic_partition: TopicPartition


Opened = Log | PenstockError
"""What came of a log: itself, or why it is offline."""


def list_log_dir(fs: FileSystem, path: str) -> LogDirContents:
    """Names that are not ours are left alone."""
    contents = LogDirContents([], {})
    for name in fs.listdir(path):
        topic_partition, suffix = parse_partition_directory(name), set_aside_suffix(name)
        if (topic_partition is None and suffix is None) or not fs.is_directory(f"{path}/{name}"):
            continue
        if topic_partition is not None:
            contents.partitions.append(topic_partition)
        elif suffix is not None:
            contents.set_aside[f"{path}/{name}"] = suffix
    return contents


def refuse_without_descriptors(action: str, path: str, error: OSError) -> None:
    """Raise the typed error when that is what the matter is."""
    if error.errno in _OUT_OF_DESCRIPTORS:
        raise storage_error(action, path, error) from error


class LogLoader:
    """One loading; see the module."""

    def __init__(self, found: Sequence[FoundLog], open_log: Callable[[FoundLog], Log]) -> None:
        """`found` is in order of its log dirs."""
        self._found = found
        self._open_log = open_log
        self._opened: dict[int, Opened | BaseException] = {}
        self._stopped = threading.Event()

    def load(self, config: LogManagerConfig, clock: Clock) -> list[Opened]:
        """What came of each, in the order of `found`; raises, with everything closed, what must not be overlooked."""
        reporter = _Reporter(self._found, config.progress, clock)
        try:
            if config.recovery_threads == 1:
                self._run_here(reporter)
            else:
                self._run_in_threads(config.recovery_threads, reporter)
            return self._results()
        except BaseException:
            for opened in self._opened.values():
                if isinstance(opened, Log):
                    opened.abandon()
            raise

    def _results(self) -> list[Opened]:
        results: list[Opened] = []
        for _, opened in sorted(self._opened.items()):
            if not isinstance(opened, Log | PenstockError) or isinstance(opened, InvariantViolation):
                raise opened
            results.append(opened)
        return results

    def _run_here(self, reporter: _Reporter) -> None:
        for at in range(len(self._found)):
            self._opened[at] = self._open(at)
            if self._stopped.is_set():
                return
            reporter.opened(at, self._opened[at])

    def _run_in_threads(self, threads: int, reporter: _Reporter) -> None:
        done: SimpleQueue[int] = SimpleQueue()

        def run(at: int) -> None:
            if not self._stopped.is_set():
                self._opened[at] = self._open(at)
            done.put(at)

        by_directory = groupby(range(len(self._found)), key=lambda at: self._found[at].directory.path)
        pools: list[ThreadPoolExecutor] = []
        try:
            for path, group in by_directory:
                pools.append(ThreadPoolExecutor(threads, thread_name_prefix=f"load {path}"))
                for at in group:
                    pools[-1].submit(run, at)
            for _ in self._found:
                at = done.get()
                if self._stopped.is_set():
                    return
                reporter.opened(at, self._opened[at])
        finally:
            self._stopped.set()
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)

    def _open(self, at: int) -> Opened | BaseException:
        """Everything that goes wrong is an answer; what stops the loading says so."""
        try:
            return self._open_one(self._found[at])
        except BaseException as error:
            self._stopped.set()
            return error

    def _open_one(self, found: FoundLog) -> Opened:
        try:
            return self._open_log(found)
        except InvariantViolation:
            raise
        except PenstockError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OUT_OF_DESCRIPTORS:
                raise
            return error
        except OSError as error:
            path = f"{found.directory.path}/{found.topic_partition}"
            refuse_without_descriptors("open the log", path, error)
            failure = storage_error("open the log", path, error)
            failure.__cause__ = error
            return failure


class _Reporter:
    """Counts, and tells at most once a second for each dir, and when a dir is done."""

    def __init__(self, found: Sequence[FoundLog], progress: Callable[[LoadProgress], None], clock: Clock) -> None:
        self._found, self._progress, self._clock = found, progress, clock
        self._totals: dict[str, int] = {}
        for log in found:
            self._totals[log.directory.path] = self._totals.get(log.directory.path, 0) + 1
        self._done = dict.fromkeys(self._totals, 0)
        self._bytes = dict.fromkeys(self._totals, 0)
        self._told_ms = dict.fromkeys(self._totals, clock.now_ms())

    def opened(self, at: int, opened: Opened | BaseException) -> None:
        directory = self._found[at].directory
        path = directory.path
        self._done[path] += 1
        if isinstance(opened, Log):
            self._bytes[path] += opened.size_bytes
        now_ms = self._clock.now_ms()
        if self._done[path] == self._totals[path] or now_ms - self._told_ms[path] >= PROGRESS_INTERVAL_MS:
            self._told_ms[path] = now_ms
            progress = LoadProgress(path, self._done[path], self._totals[path], self._bytes[path], directory.was_clean)
            self._progress(progress)
