"""The producer's buffer: so many bytes, taken in steps by batches and given back when they are acked.

Taking never blocks, and the batch knows what it has from the moment that it is taken: Ctrl-C in a caller, which Python
raises behind a call, leaves no memory that nobody gives back. A caller that gets none waits with `wait` (a thread) or
`subscribe` (an event loop), and tries again. Waiting callers have no order: each time that memory is given back, all of
them are woken. Not here: how much a batch needs (accumulator.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.threads import Threads


class Holder(Protocol):
    """What takes memory: a batch."""

    granted_bytes: int


class MemoryPool:
    """`total_bytes`, of which `available_bytes` are free."""

    __slots__ = ("_available", "_lock", "_threads", "_waiters", "_wakers", "total_bytes")

    def __init__(self, total_bytes: int, threads: Threads) -> None:
        self.total_bytes = total_bytes
        self._available = total_bytes
        self._threads = threads
        self._lock = threads.lock()
        self._wakers: list[Callable[[], object]] = []
        self._waiters: set[object] = set()

    @property
    def available_bytes(self) -> int:
        return self._available

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self._available

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for memory: the sender then closes batches early."""
        return bool(self._waiters)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around every wait for memory."""
        this = object()  # in a set: Ctrl-C between a step and its undoing leaves no count that is never undone
        try:
            self._waiters.add(this)
            yield
        finally:
            self._waiters.discard(this)

    def try_take(self, holder: Holder, size_bytes: int, *, must: bool = True) -> bool:
        """Grants the holder so much more; False when there is too little. One that `must` fit and is larger than the
        pool gets the whole pool."""
        with self._lock:
            alone = must and size_bytes > self.total_bytes and self._available == self.total_bytes
            if size_bytes > self._available and not alone:
                return False
            self._available -= size_bytes
            holder.granted_bytes += size_bytes
            return True

    def give_back(self, holder: Holder) -> None:
        """All that the holder has. Idempotent."""
        with self._lock:
            if not holder.granted_bytes:
                return
            self._available += holder.granted_bytes
            holder.granted_bytes = 0
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wait(self, seen_available: int, timeout: float) -> None:
        """Blocks this thread until memory was given back since `seen_available`, at most `timeout` seconds."""
        freed = self._threads.event()
        with self._lock:
            if self._available > seen_available:
                return
            self._wakers.append(freed.set)
        if not freed.wait(timeout):
            with self._lock, contextlib.suppress(ValueError):  # it was woken at this moment
                self._wakers.remove(freed.set)

    def subscribe(self, wake: Callable[[], object]) -> None:
        """Calls `wake` once, at the next giving back, on the thread that gives."""
        with self._lock:
            self._wakers.append(wake)

    def __repr__(self) -> str:
        return f"MemoryPool({self.used_bytes} of {self.total_bytes} bytes used)"
