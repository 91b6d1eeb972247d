"""Closes one log dir at a stop: its logs, several at a time, then its checkpoints and the marker of a clean stop.

Closing a log takes some syncs, which wait for the disk one after the other. A journal serves the syncs of several
threads with one commit. One thread alone needs more than the 30 s of a stop for 10,000 logs on a common disk; then the
stop would give a sound log dir up, and the next start would recover all of it.

Not here: the order of the dirs (`log_manager.py`), and how long a stop waits (`storage/disk/stop_wait.py`).
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.threads import Thread, Threads
from storage.log.log import Log
from storage.log_dirs.log_checkpoints import LogCheckpoints
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import LogTable

_log = logging.getLogger(__name__)


class Stop(NamedTuple):
    """How a node stops, as the marker of a clean stop tells it to the next start."""

    is_clean: bool
    """True for a clean stop; False: everything is closed as it is."""
    broker_epoch: int
    directory_ids: set[str]


class LogClosing:
    """Closes log dirs, each in any thread. The directories and the table are the log manager's own, and live."""

    def __init__(
        self, directories: Mapping[str, LogDirectory], table: LogTable, checkpoints: LogCheckpoints, threads: Threads
    ) -> None:
        self._directories, self._table = directories, table
        self._checkpoints, self._threads = checkpoints, threads

    def close(
        self,
        log_dir: str,
        stop: Stop,
        is_given_up: Callable[[], bool] = lambda: False,
        threads_max: int = 1,
    ) -> None:
        """Closes the logs of a log dir, and then the dir itself. Blocks. A log dir that was given up meanwhile gets no
        marker, and keeps its lock."""
        directory = self._directories.get(log_dir)
        if directory is None:  # it has failed meanwhile
            return
        closed = stop.is_clean and self._close_logs(directory, threads_max)
        for log in self._table.logs_in(log_dir):
            log.abandon(wait=False)  # the directory keeps its name
        if not is_given_up():
            with contextlib.suppress(OSError):
                directory.close(clean=closed, broker_epoch=stop.broker_epoch, directory_ids=stop.directory_ids)

    def _close_logs(self, directory: LogDirectory, threads_max: int) -> bool:
        """True when everything in the dir is durable and its checkpoints say so."""
        failures = close_logs(self._table.logs_in(directory.path), self._threads, threads_max)
        try:
            self._checkpoints.write_recovery_points_of(directory)
            self._checkpoints.write_log_starts_of(directory)
        except OSError as error:
            failures.append(error)
        for failure in failures[:1]:
            _log.error("%s: not closed cleanly (%d failures): %s", directory.path, len(failures), failure)
        return not failures

    def __repr__(self) -> str:
        return f"LogClosing({', '.join(self._directories)})"


def close_logs(logs: Iterable[Log], threads: Threads, threads_max: int) -> list[Exception]:
    """Blocks until all are closed; the errors of those that failed. This thread is one of `threads_max`."""
    left, failures = deque(logs), list[Exception]()

    def work() -> None:
        while left:
            try:
                log = left.popleft()
            except IndexError:  # another thread took it
                return
            try:
                log.close()
            except Exception as error:  # whatever it is, this log is not closed cleanly, and the others may be
                failures.append(error)

    helpers: list[Thread] = []
    with contextlib.suppress(RuntimeError, MemoryError):  # a limit of processes, or no memory: it goes on without them
        while len(helpers) < min(threads_max, len(left)) - 1:
            helpers.append(threads.start("close logs", work, daemon=True))
    work()
    for helper in helpers:
        helper.join()
    return failures
