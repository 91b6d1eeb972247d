"""Ends a process of the tests that hangs where no signal reaches it: it tells where its threads stand, and exits.

pytest's own `faulthandler_timeout` makes a thread for each test and waits until that has ended: on busy processors the
wait is longer than most of the tests. Here one thread watches all tests that begin within REARMED_AFTER_S.
"""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

HANGS_AFTER_S = 450.0
"""Above the time-out of tests (pyproject.toml), which ends those that a signal reaches."""
REARMED_AFTER_S = 30.0


class HangWatch:
    """A plugin: a process whose test takes longer than HANGS_AFTER_S, and up to REARMED_AFTER_S more, ends."""

    def __init__(self, hangs_after_s: float = HANGS_AFTER_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._hangs_after_s = hangs_after_s
        self._now_s = now_s
        self._rearmed_s = now_s()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        now_s = self._now_s()
        if now_s >= self._rearmed_s:
            self._rearmed_s = now_s + REARMED_AFTER_S
            stderr = item.config.stash[fault_handler_stderr_fd_key]
            faulthandler.dump_traceback_later(self._hangs_after_s + REARMED_AFTER_S, file=stderr, exit=True)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
