"""Wakes a shard without a request: for its timers, and for its steps.

All timers share one wake-up of the event loop, at the first timer's time. A timer that moves to later leaves the
wake-up where it is, which is the usual case (each heartbeat moves one): a shard that is woken too early sets the next
one.

A step is work that no request asks for: after a load, and when topics have changed. Each has a turn of the event loop
of its own; while the shard cannot take a step it is kept. Not here: which timers are due (timers.py), and what a step
does (the core).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker.coordination.turn import Turn

HELD_MS: Final = 500
"""The pause between two looks at the steps that wait while the log may not be written."""
Step = Callable[[Turn], None]


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


class ShardSteps:
    """The steps of one shard, in order."""

    def __init__(
        self, is_serving: Callable[[], bool], may_write: Callable[[], bool], take: Callable[[Step], None]
    ) -> None:
        self._is_serving, self._may_write, self._take = is_serving, may_write, take
        self._steps: deque[Step] = deque()

    def add(self, step: Step) -> None:
        """Adds a step after those that wait."""
        self._steps.append(step)
        if len(self._steps) == 1 and self._is_serving():
            asyncio.get_running_loop().call_soon(self.go_on)

    def add_first(self, steps: Sequence[Step]) -> None:
        """Adds steps before those that wait; `go_on` must follow."""
        self._steps.extendleft(reversed(steps))

    def go_on(self) -> None:
        """The next step, if the shard serves; the others follow by themselves."""
        if not self._steps or not self._is_serving():
            return
        loop = asyncio.get_running_loop()
        if not self._may_write():
            loop.call_later(HELD_MS / 1000, self.go_on)
            return
        self._take(self._steps.popleft())
        if self._steps:
            loop.call_soon(self.go_on)

    def clear(self) -> None:
        self._steps.clear()

    def __repr__(self) -> str:
        return f"ShardSteps({len(self._steps)})"
