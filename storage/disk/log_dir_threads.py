"""Threads for work on the names in a log dir: one for each dir, so that a dir that hangs holds up no other.

Work for one dir is done in order. Not here: flushes (`storage/log/group_commit.py`), scheduled work
(`broker/jobs/scheduler.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from penstock.threads import Threads
from storage.disk.dir_threads import DirThreads, OnDone


class InLogDir(Protocol):
    """Threads for each log dir. Work that raises at once was not begun."""

    def run(self, log_dir: str, work: Callable[[], object], on_done: OnDone) -> None: ...

    @property
    def busy(self) -> set[str]:
        """The log dirs in which work is under way, or waits."""
        ...

    def close(self, given_up: set[str]) -> None:
        """Wait for the threads, except in log dirs that are given up."""
        ...


class LogDirThreads:
    """One for each log dir, made when it is needed. Used on the event loop."""

    def __init__(self, threads: Threads, name: str) -> None:
        self._threads, self._name = threads, name
        self._of: dict[str, DirThreads] = {}
        self._open: Counter[str] = Counter()

    def run(self, log_dir: str, work: Callable[[], object], on_done: OnDone) -> None:
        def done(error: BaseException | None) -> None:
            self._open[log_dir] -= 1
            on_done(error)

        self._of.setdefault(log_dir, DirThreads(self._threads, self._name, 1)).run(work, done)
        self._open[log_dir] += 1

    @property
    def busy(self) -> set[str]:
        return {log_dir for log_dir, count in self._open.items() if count}

    def close(self, given_up: set[str]) -> None:
        for log_dir, threads in self._of.items():
            threads.close(wait=log_dir not in given_up)

    def __repr__(self) -> str:
        return f"LogDirThreads({self._name}, {', '.join(self._of)})"
