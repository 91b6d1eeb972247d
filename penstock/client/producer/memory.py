"""The producer's buffer: so many bytes, taken in steps by batches and given back when they are acked.

Taking never blocks; who finds it empty waits with `wait` (a thread) or `subscribe` (an event loop) and tries again.
Fair only in that everybody who waits is woken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class MemoryPool:
    """`total_bytes`, of which `available_bytes` are free."""

    __slots__ = ("_available", "_freed", "_wakers", "total_bytes", "waiters")

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._available = total_bytes
        self._freed = threading.Condition(threading.Lock())
        self._wakers: list[Callable[[], object]] = []
        self.waiters = 0  # how many want memory now: the sender then closes batches early

    @property
    def available_bytes(self) -> int:
        return self._available

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self._available

    def try_take(self, size_bytes: int, *, must: bool = True) -> bool:
        """False when there is too little. What `must` fit and is larger than the pool may have it all to itself."""
        with self._freed:
            alone = must and size_bytes > self.total_bytes and self._available == self.total_bytes
            if size_bytes > self._available and not alone:
                return False
            self._available -= size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        with self._freed:
            self._available += size_bytes
            self._freed.notify_all()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wait(self, seen_available: int, timeout: float) -> None:
        """Blocks this thread until memory was given back since `seen_available`, at most `timeout` seconds."""
        with self._freed:
            if self._available <= seen_available:
                self._freed.wait(timeout)

    def subscribe(self, wake: Callable[[], object]) -> None:
        """Calls `wake` once, at the next giving back, on the thread that gives."""
        with self._freed:
            self._wakers.append(wake)

    def __repr__(self) -> str:
        return f"MemoryPool({self.used_bytes} of {self.total_bytes} bytes used)"
