"""Says which share of the last minute a kind of work left the event loop idle.

A node has one event loop, so 'idle' is the share of wall time in which this kind of work (handlers, or processors) did
not occupy the loop, whatever the number of tasks: 1.0 is unused, 0.0 is saturated. Kafka's RequestHandlerAvgIdlePercent
and NetworkProcessorAvgIdlePercent average over threads and read the same way.
"""

from __future__ import annotations

import time
from collections import deque

WINDOW_NS = 60_000_000_000
SLICE_NS = 1_000_000_000


class IdleMeter:
    """Busy nanoseconds in slices of one second over a sliding window of one minute."""

    def __init__(self) -> None:
        self._started_ns = time.monotonic_ns()
        self._slices: deque[tuple[int, int]] = deque()
        self._slice_began_ns = self._started_ns
        self._slice_busy_ns = 0

    def add_busy(self, from_ns: int, to_ns: int) -> None:
        """The loop was occupied between two monotonic times."""
        if to_ns - self._slice_began_ns > SLICE_NS:
            self._slices.append((self._slice_began_ns, self._slice_busy_ns))
            self._slice_began_ns, self._slice_busy_ns = from_ns, 0
            while self._slices[0][0] < to_ns - WINDOW_NS:
                self._slices.popleft()
                if not self._slices:
                    break
        self._slice_busy_ns += to_ns - from_ns

    def idle_ratio(self) -> float:
        """Between 0 and 1, over the last minute or since the start if that is shorter."""
        now_ns = time.monotonic_ns()
        horizon_ns = max(self._started_ns, now_ns - WINDOW_NS)
        busy_ns = sum(busy for began, busy in tuple(self._slices) if began >= horizon_ns) + self._slice_busy_ns
        return max(0.0, min(1.0, 1.0 - busy_ns / max(1, now_ns - horizon_ns)))
