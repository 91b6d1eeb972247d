"""One wake-up of the event loop for all timers of a shard: the first timer's time.

A timer that moves to later leaves the wake-up where it is, which is the usual case (each heartbeat moves one): a shard
that is woken too early sets the next one. Not here: which timers are due (timers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WakeUp:
    """Calls `woken` once for each time that it was set to."""

    def __init__(self, now_ms: Callable[[], int], woken: Callable[[], None]) -> None:
        self._now_ms, self._woken = now_ms, woken
        self._handle: asyncio.TimerHandle | None = None
        self._at_ms = 0

    def by(self, at_ms: int | None) -> None:
        """Wakes the shard at that time, or before it; None changes nothing."""
        if at_ms is not None and (self._handle is None or at_ms < self._at_ms):
            self.cancel()
            self._at_ms = at_ms
            left_ms = max(0, at_ms - self._now_ms())
            self._handle = asyncio.get_running_loop().call_later(left_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._handle = None
        self._woken()

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def __repr__(self) -> str:
        return f"WakeUp({'none' if self._handle is None else self._at_ms})"
