"""Limits how long the stop of a node waits for each log dir; after that the stop goes on without the dir.

A disk that hangs does not answer the operation under way (a flush, a checkpoint, a rename), nor the next one. A stop
that waited for it would end by SIGKILL, and no other log dir would be closed cleanly. So a dir that makes the stop wait
for `STOP_WAIT_MS` in all is given up. Nothing more is asked of it. It gets no clean-shutdown marker, so the next start
recovers it. Its lock stays until the process has ended, because its threads may still write. Threads cannot be ended,
so the end of the process must not wait for them (`broker/node/server.py`).

Every operation that may be under way in a log dir at a stop is waited for here; its owner reports it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future

from penstock.clock import Clock
from penstock.threads import Threads

_log = logging.getLogger(__name__)

STOP_WAIT_MS = 30_000
"""A disk that is only slow has finished its fsyncs by then. Two such waits (one dir hangs from the start of the stop,
another from its last step) and the rest of a stop are shorter than the TimeoutStopSec=2min of the systemd unit."""
LOOK_MS_MAX = 20
"""Pause between two looks; shorter at first, because mostly nothing is under way."""


class StopWait:
    """One per stop; lives on the event loop."""

    def __init__(self, clock: Clock, threads: Threads, limit_ms: int = STOP_WAIT_MS) -> None:
        self._clock, self._threads = clock, threads
        self._limit_ms = limit_ms
        self._waited_ms: Counter[str] = Counter()
        self.given_up: set[str] = set()
        """The log dirs that did not answer in time."""

    def goes_without(self, log_dirs: Iterable[str]) -> None:
        """Leaves out log dirs that were given up before the stop began."""
        self.given_up.update(log_dirs)

    async def until_idle(self, under_way: Callable[[], Collection[str]]) -> None:
        """Wait until nothing is under way in any log dir that is not given up.

        `under_way` returns the log dirs with an operation under way; it is called repeatedly.
        """
        pause_ms, looked_ms = 0, self._clock.now_ms()
        while waiting := set(under_way()) - self.given_up:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms + 1, LOOK_MS_MAX)
            now_ms = self._clock.now_ms()
            for log_dir in sorted(waiting):
                self._waited_ms[log_dir] += now_ms - looked_ms
                if self._waited_ms[log_dir] >= self._limit_ms and log_dir in under_way():
                    self._give_up(log_dir)
            looked_ms = now_ms

    def _give_up(self, log_dir: str) -> None:
        self.given_up.add(log_dir)
        _log.error(
            "%s hangs: the stop has waited %d ms for it and goes on without it; the next start recovers its logs",
            log_dir,
            self._waited_ms[log_dir],
        )

    async def each(self, log_dirs: Iterable[str], work: Callable[[str], None]) -> None:
        """Do blocking work for every log dir that is not given up, each in a thread of its own; raises its first error.

        The work of a dir that is given up meanwhile goes on in its thread.
        """
        outcomes = {log_dir: self._started(log_dir, work) for log_dir in log_dirs if log_dir not in self.given_up}
        await self.until_idle(lambda: [log_dir for log_dir, outcome in outcomes.items() if not outcome.done()])
        for outcome in outcomes.values():
            if outcome.done():
                outcome.result()

    def _started(self, log_dir: str, work: Callable[[str], None]) -> Future[None]:
        outcome: Future[None] = Future()

        def run() -> None:
            try:
                work(log_dir)
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        try:
            self._threads.start(f"stop {log_dir}", run, daemon=True)
        except (RuntimeError, MemoryError):  # a limit of processes, or no memory: then one after the other, here
            run()
        return outcome

    def __repr__(self) -> str:
        return f"StopWait(waited {dict(self._waited_ms)} of {self._limit_ms} ms, given up {sorted(self.given_up)})"
