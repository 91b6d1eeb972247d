"""Notices that the event loop stood still: in that time this node has read nothing that others sent to it.

A large change of the metadata, a paused process or a machine without a free processor stops a loop for seconds. A
controller that then looked at the sessions of its brokers would fence brokers whose heartbeats lie in its own sockets.
So it asks here first, and does not count that time as their silence.

Not here: what it means for a session (`metadata/controller/sessions.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.clock import Clock

LOOK_MS = 200
"""The time between two looks. A look that is later than this by as much again was kept waiting by a stall."""


class StallWatch:
    """One for each time that this node becomes the active controller; on the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_ms = clock.now_ms()

    def look(self) -> int:
        """The time (ms) for which the loop stood still since the last look; 0 if it did not."""
        now_ms = self._clock.now_ms()
        late_ms = now_ms - self._looked_ms - LOOK_MS
        self._looked_ms = now_ms
        return late_ms if late_ms >= LOOK_MS else 0

    async def run(self, look: Callable[[], object]) -> None:
        """Calls `look`, which calls the method of that name, at each look; until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            look()

    def __repr__(self) -> str:
        return f"StallWatch(looked at {self._looked_ms} ms)"
