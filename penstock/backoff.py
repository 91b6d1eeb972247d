"""Computes the wait before the next attempt: one rule for clients and for nodes.

Waits double up to a limit, and each is shortened by a random part, so that many requests that failed together do not
come back together. Not here: which errors are tried again, and for how long.
"""

from __future__ import annotations

from random import Random

from penstock.lazy_dataclass import dataclass

MAX_DOUBLINGS = 20
SPREAD = 5
"""A wait is shortened by up to one part in this many, as in Kafka, whose waits vary by 20 %."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts: `initial_ms`, doubled each time, never above `max_ms`."""

    initial_ms: int
    max_ms: int
    random: Random

    def wait_ms(self, attempt: int) -> int:
        """The wait after attempt number `attempt` (1 is the first) has failed."""
        full = min(self.initial_ms << min(max(attempt - 1, 0), MAX_DOUBLINGS), max(self.max_ms, self.initial_ms))
        return full - self.random.randint(0, full // SPREAD)
