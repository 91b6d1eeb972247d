"""What most tests need of the machine where it does not matter to them: threads, and how long a stop waits."""

from __future__ import annotations

from penstock.clock import Clock, SystemClock
from penstock.threads import SystemThreads
from storage.disk.stop_wait import STOP_WAIT_MS, StopWait

THREADS = SystemThreads()


def stop_wait(clock: Clock | None = None, limit_ms: int = STOP_WAIT_MS) -> StopWait:
    return StopWait(clock or SystemClock(), THREADS, limit_ms)
