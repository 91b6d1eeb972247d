"""Holds the cleaner's disk traffic below log.cleaner.io.max.bytes.per.second, all threads together.

Traffic is reported after it happened, and is followed by a wait: each byte takes its share of a second, one after
another. So over any time longer than one chunk takes, the rate is not above the limit, and idle time is not saved up.
The wait is a wait for the stop signal, so it ends at once when the cleaner is stopped (`log_cleaner.py`). It also ends
within SLICE_MS of a change of the limit: what was owed under the old one is forgiven.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.errors import CleaningAbortedError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Lock
from storage.cleaner.cleaner_types import NO_LIMIT

SLICE_MS = 1_000
"""The longest single wait. With a limit of 1 byte a second, a chunk would have to wait for days."""


class StopSignal(Protocol):
    """A `penstock.threads.Event`: set when a pass must end."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool:
        """Wait this many seconds, or until it is set; returns whether it is set."""
        ...


class CleanerThrottle:
    """The node's limit; safe to use from several threads."""

    __slots__ = ("_free_at_ms", "_lock", "_max_bytes_per_second", "_now_ms", "changes", "throttled_ms")

    def __init__(self, max_bytes_per_second: int, now_ms: Callable[[], int], lock: Lock) -> None:
        """`now_ms` is monotonic."""
        self._max_bytes_per_second, self._now_ms = max_bytes_per_second, now_ms
        self._lock = lock
        self._free_at_ms = 0.0
        self.throttled_ms = 0.0
        """Waits that were asked for, all threads together."""
        self.changes = 0
        """How often the limit was changed."""

    def change(self, max_bytes_per_second: int) -> None:
        """Another limit from now on, unless it is the same."""
        with self._lock:
            if max_bytes_per_second != self._max_bytes_per_second:
                self._max_bytes_per_second, self._free_at_ms = max_bytes_per_second, 0.0
                self.changes += 1

    def wait_ms(self, size_bytes: int) -> float:
        """How long to wait after this many bytes were read or written."""
        if self._max_bytes_per_second >= NO_LIMIT:
            return 0.0
        with self._lock:
            now_ms = self._now_ms()
            self._free_at_ms = max(self._free_at_ms, now_ms) + size_bytes * 1000 / self._max_bytes_per_second
            self.throttled_ms += self._free_at_ms - now_ms
            return self._free_at_ms - now_ms

    def __repr__(self) -> str:
        return f"CleanerThrottle({self._max_bytes_per_second} bytes/s, {self.throttled_ms:.0f} ms waited)"


@dataclass(frozen=True, slots=True)
class Pace:
    """One pass's side of the throttle: called with the size of every read and write."""

    throttle: CleanerThrottle
    stop: StopSignal

    def __call__(self, size_bytes: int) -> None:
        """Wait for the rate limit; CleaningAbortedError when the pass must end."""
        changes = self.throttle.changes
        left_ms = self.throttle.wait_ms(size_bytes)
        while True:
            if self.stop.wait(min(left_ms, SLICE_MS) / 1000):
                raise CleaningAbortedError("the cleaner was told to stop")
            left_ms -= SLICE_MS
            if left_ms <= 0 or self.throttle.changes != changes:
                return
