"""Closes the logs of one log dir at a clean stop, several at a time.

Closing a log takes some syncs, which wait for the disk one after the other. A journal serves the syncs of several
threads with one commit. One thread alone needs more than the 30 s of a stop for 10,000 logs on a common disk; then the
stop would give a sound log dir up, and the next start would recover all of it.

Not here: what is written afterwards (`log_manager.py`), and how long a stop waits (`storage/disk/stop_wait.py`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable

from penstock.threads import Thread, Threads
from storage.log.log import Log


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
