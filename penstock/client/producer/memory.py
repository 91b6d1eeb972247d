"""The producer's buffer: a fixed number of bytes, which batches take in steps and give back when they are acked.

Taking never blocks. Ctrl-C cannot leak memory: the batch records its grant in the step that takes it, and Python raises
Ctrl-C behind a call. A caller that gets no memory waits with `wait` (a thread) or `subscribe` (an event loop), and
tries again. Waiting callers have no order: each time that memory is given back, all of them are woken.

A partition stands still when none of its batches was acked for STILL_MS although one was sent. Its records wait until
`delivery_timeout_ms`, and would fill the whole buffer: then no other partition could take a record (so it is in Kafka).
So while others are acked, all that stand still may hold half of the buffer together. If nothing is acked, nobody would
use the other half: then there is no such limit. Not here: how much a batch needs (accumulator.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from penstock.client.producer.partition_queue import PartitionQueue
from penstock.threads import Threads

STILL_MS = 2_000
"""Far longer than an ack takes, also behind a backlog: it counts from when a batch was sent."""
SHARE = 2
"""Divides the buffer."""
NEVER_MS = -(2**62)


class Holder(Protocol):
    """A holder of memory: a batch."""

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
        """True if somebody waits for memory: the sender then closes batches early. While half of it is free, the caller
        waits for a partition that stands still, and no early batch helps that."""
        return bool(self._waiters) and self._available < self.total_bytes // 2

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The context of every wait for memory."""
        this = object()  # in a set: Ctrl-C between a step and its undoing leaves no count that is never undone
        try:
            self._waiters.add(this)
            yield
        finally:
            self._waiters.discard(this)

    def try_take(self, holder: Holder, size_bytes: int, *, must: bool = True) -> bool:
        """Grants the holder this many more bytes; False when too few are free. A request larger than the pool that
        `must` fit gets the whole pool."""
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
            self.unsubscribe(freed.set)

    def subscribe(self, wake: Callable[[], object]) -> None:
        """Calls `wake` once, at the next giving back, on the thread that gives."""
        with self._lock:
            self._wakers.append(wake)

    def unsubscribe(self, wake: Callable[[], object]) -> None:
        """The end of `subscribe` for one that waits no longer."""
        with self._lock, contextlib.suppress(ValueError):  # it was woken at this moment
            self._wakers.remove(wake)

    def __repr__(self) -> str:
        return f"MemoryPool({self.used_bytes} of {self.total_bytes} bytes used)"


def stands_still(queue: PartitionQueue, now_ms: int) -> bool:
    """True if a batch of the partition was sent, and none was acked for STILL_MS since then."""
    return queue.still_since_ms is not None and now_ms - queue.still_since_ms >= STILL_MS


class BufferShare:
    """Limits what the partitions that stand still may hold together."""

    def __init__(self, queues: Callable[[], Iterable[PartitionQueue]], buffer_bytes: int) -> None:
        self._queues, self._bytes_max = queues, buffer_bytes // SHARE
        self._acked_ms = NEVER_MS

    def note_ack(self, now_ms: int) -> None:
        """Notes an ack of any partition."""
        self._acked_ms = now_ms

    def allows(self, queue: PartitionQueue, size_bytes: int, now_ms: int) -> bool:
        """True if the partition may take this many more bytes, as far as the other partitions are concerned."""
        if not stands_still(queue, now_ms) or now_ms - self._acked_ms >= STILL_MS:
            return True
        return self._held_bytes(now_ms) + size_bytes <= self._bytes_max

    def _held_bytes(self, now_ms: int) -> int:
        return sum(queue.held_bytes for queue in self._queues() if stands_still(queue, now_ms))

    def why_exhausted(self, now_ms: int) -> str:
        """The partitions that stand still, for the error of a caller that got no memory; "" if none does."""
        still = [queue for queue in self._queues() if stands_still(queue, now_ms)]
        if not still:
            return ""
        more = f" and {len(still) - 1} more partitions" if len(still) > 1 else ""
        held = sum(queue.held_bytes for queue in still)
        return (
            f"; {still[0].topic_partition}{more} hold {held} of them and are not acked; they may hold {self._bytes_max}"
            " while others are acked"
        )

    def __repr__(self) -> str:
        return f"BufferShare({self._bytes_max} bytes)"
