"""How many bytes a second a broker copies for replicas that move, in one direction: to them as leader, or as follower.

A token bucket (KIP-73; `leader.replication.throttled.rate`, `follower.replication.throttled.rate`). Only copies count
that are being added by a reassignment and are not in sync yet: a replica that is in sync, or catches up after a
restart, is never held up. So a throttle, however low, takes nothing from the promises of a partition; it makes a move
last longer.

A copy may go when there is room for CHUNK_BYTES, and may take more than the room: whole batches do. What it takes too
much is missing afterwards, so that the rate holds over time. Pure: the caller brings the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

NO_LIMIT = 2**63 - 1
BURST_MS = 1_000
"""The time for which the rate is saved up at most while nothing is copied."""
CHUNK_BYTES = 64 * 1024
"""The least room for which a request is worth its cost, unless the rate is lower still."""
HOLD_MS_MAX = 250
"""A copy that is held looks again after this time at the latest: the rate may be another one, or the copy in sync."""


class MoveThrottle:
    """The throttle of one direction. There is one per broker and direction, on the event loop."""

    def __init__(self, bytes_per_second: int = NO_LIMIT) -> None:
        self.bytes_total = 0
        """Copied since the start, with or without a limit."""
        self.holds = 0
        """How often a copy was held."""
        self._rate = bytes_per_second
        self._room = 0  # in thousandths of a byte: a rate by ms is exact in them
        self._seen_ms: int | None = None

    @property
    def is_limited(self) -> bool:
        return self._rate < NO_LIMIT

    def set_rate(self, bytes_per_second: int) -> None:
        """Changes the rate from now on. Bytes that were saved up at the old rate are lost; a debt is kept."""
        if bytes_per_second != self._rate:
            self._rate, self._room = bytes_per_second, min(self._room, 0)

    def room(self, now_ms: int) -> int:
        """Bytes that may be copied now; 0: none, see `hold_ms`."""
        if not self.is_limited:
            return NO_LIMIT
        self._refill(now_ms)
        return self._room // 1000 if self._room >= self._least else 0

    def spend(self, size_bytes: int, now_ms: int) -> None:
        """Counts bytes that were copied."""
        self.bytes_total += size_bytes
        if self.is_limited:
            self._refill(now_ms)
            self._room -= size_bytes * 1000

    def hold_ms(self, now_ms: int) -> int:
        """How long a copy without room is held before it looks again."""
        self._refill(now_ms)
        missing = max(self._least - self._room, 0)
        return min(missing // self._rate + 1, HOLD_MS_MAX)

    def note_hold(self) -> None:
        """A copy is held, or held once more."""
        self.holds += 1

    @property
    def _least(self) -> int:
        """Well below what is saved up: while one side waits for the other, nothing is lost."""
        return min(CHUNK_BYTES * 1000, max(self._rate * BURST_MS // 4, 1000))

    def _refill(self, now_ms: int) -> None:
        passed_ms = 0 if self._seen_ms is None else max(now_ms - self._seen_ms, 0)
        self._seen_ms = now_ms
        self._room = min(self._room + passed_ms * self._rate, self._rate * BURST_MS)

    def __repr__(self) -> str:
        return f"MoveThrottle({f'{self._rate} bytes/s' if self.is_limited else 'no limit'}, {self.bytes_total} copied)"


@dataclass(frozen=True, slots=True)
class MovingCopies:
    """The throttle of one direction, and what it is for: `is_moving` says whether the partition's replica here is being
    added and not in sync."""

    throttle: MoveThrottle = field(default_factory=MoveThrottle)
    is_moving: Callable[[TopicPartition], bool] = lambda partition: False
