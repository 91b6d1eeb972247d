"""The logs of a log dir are closed several at a time, and one that fails keeps no other from being closed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.threads import SystemThreads
from storage.log_dirs.log_closing import close_logs

THREADS = 4


class ClosableLog:
    """As far as closing needs one."""

    def __init__(self, barrier: threading.Barrier | None = None, error: Exception | None = None) -> None:
        self.closed = 0
        self._barrier, self._error = barrier, error

    def close(self) -> None:
        self.closed += 1
        if self._barrier is not None:
            self._barrier.wait()
        if self._error is not None:
            raise self._error


class NoThreads(SystemThreads):
    def start(self, name: str, work: object, *, daemon: bool = False) -> Any:
        raise RuntimeError("can't start new thread")


def test_so_many_logs_are_closed_at_the_same_time() -> None:
    together = threading.Barrier(THREADS, timeout=60)  # each close waits for three others: one thread would never end
    logs = [ClosableLog(together) for _ in range(3 * THREADS)]
    assert close_logs(logs, SystemThreads(), THREADS) == []  # type: ignore[arg-type]
    assert [log.closed for log in logs] == [1] * len(logs)


def test_a_log_that_fails_is_told_and_the_others_are_closed() -> None:
    error = OSError("no disk")
    logs = [ClosableLog(error=error), *(ClosableLog() for _ in range(9))]
    assert close_logs(logs, SystemThreads(), THREADS) == [error]  # type: ignore[arg-type]
    assert [log.closed for log in logs] == [1] * len(logs)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_without_a_thread_the_caller_closes_all(count: int) -> None:
    logs = [ClosableLog() for _ in range(count)]
    assert close_logs(logs, NoThreads(), THREADS) == []  # type: ignore[arg-type]
    assert [log.closed for log in logs] == [1] * count
