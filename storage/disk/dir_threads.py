"""Threads of one log dir for work that may block, and the way back to the event loop.

An executor makes two futures and a condition for each call, and copies one future's outcome into the other: 48 µs of
CPU a call, under uvloop. A flush is on the hot path and has one listener, so a queue and one callback are enough: 16
µs. The threads are daemons: a node that must end does not wait for a disk that hangs. If the system gives no new
thread, the existing ones do all the work. Without any thread, `run` raises NoThreadError; a later try may get one.

Not here: the work, and how much of it may wait (`storage/log/group_commit.py` and the parts of the broker).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.threads import Threads

_log = logging.getLogger(__name__)

OnDone = Callable[[BaseException | None], None]

HAND_OVER_AGAIN_SECONDS = 0.1
"""Pause before an outcome for which the loop had no memory is handed over again."""


class NoThreadError(OSError):
    """The system gives no thread, and no thread exists yet. The work was not begun; it may be tried again."""


class Loop(Protocol):
    """The part of the event loop that a thread uses."""

    def call_soon_threadsafe(self, callback: OnDone, error: BaseException | None, /) -> object:
        """Have it called on the loop; RuntimeError once the loop is closed."""
        ...


class DirThreads:
    """The threads of one log dir, at most `threads_max`, made when they are needed and called `name-0`, `name-1`, …
    Used on the loop."""

    def __init__(self, threads: Threads, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._workers = threads.workers(name)
        self._pause = threads.pause
        self._open = 0
        self._said = False
        """True if the lack of threads was logged since the last thread was made."""

    @property
    def working(self) -> int:
        """Threads that are at work."""
        return min(self._open, self._workers.count)

    @property
    def waiting(self) -> int:
        """Pieces of work that no thread has begun."""
        return max(0, self._open - self._workers.count)

    def run(self, work: Callable[[], object], on_done: OnDone, loop: Loop | None = None) -> None:
        """Do `work` in a thread, then call `on_done` on the loop (the running one), with what it raised.

        If this method itself raises, `work` is not queued and `on_done` is not called.
        """
        if self._open >= self._workers.count < self._threads_max:
            self._start_thread()
        self._workers.put(partial(self._do, work, loop or asyncio.get_running_loop(), self._counted(on_done)))
        self._open += 1

    def _start_thread(self) -> None:
        try:
            self._workers.grow()
        except (RuntimeError, MemoryError) as error:  # a limit of processes (ulimit -u, TasksMax=), or no memory
            if not self._workers.count:
                raise NoThreadError(errno.EAGAIN, f"no thread for {self._name}: {error}") from error
            if not self._said:
                _log.warning("%d threads have to do for %s of a log dir: %s", self._workers.count, self._name, error)
            self._said = True
            return
        self._said = False

    def _counted(self, on_done: OnDone) -> OnDone:
        is_answered = False

        def done(error: BaseException | None) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                self._open -= 1
                on_done(error)

        return done

    def _do(self, work: Callable[[], object], loop: Loop, on_done: OnDone) -> None:
        """Does the work, in a thread. `on_done` may be called twice, and counts once."""
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # every error is reported to `on_done`
            error = raised
        _hand_over(loop, on_done, error, self._pause)

    def close(self, *, wait: bool = True) -> None:
        """Let the threads go after what they have; `wait`: blocks until they are gone."""
        self._workers.close(wait=wait)

    def __repr__(self) -> str:
        return f"DirThreads({self._name}, {self._open} jobs, {self._workers.count} of {self._threads_max} threads)"


def _hand_over(loop: Loop, on_done: OnDone, error: BaseException | None, pause: Callable[[float], None]) -> None:
    """Hands the outcome from a thread to the loop, and tries until that has it, because a caller waits for it. Once the
    loop is closed, no caller waits any more. If the memory runs out late in the call, the loop gets it twice."""
    while True:
        try:
            loop.call_soon_threadsafe(on_done, error)
            return
        except RuntimeError:
            return
        except MemoryError:
            pause(HAND_OVER_AGAIN_SECONDS)
