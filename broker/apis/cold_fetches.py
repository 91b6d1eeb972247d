"""The reads of one fetch session that wait for a disk: in I/O threads, a few at a time, while the session goes on.

A partition whose records are not in the page cache is left out of the answer that is built now; it is in the next
answer after its records were read. So a cold partition holds up no other, and no request waits longer than its
max_wait_ms. The records are kept until they are sent, or are not wanted any more: the fetcher moved to another offset,
the partition left the session, or the stream ended. `Partition.read` checks that they are still the log's when they are
sent.

The bytes of a read are counted in the stream's memory BEFORE it begins. The threads are in `io_threads.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.network.io_threads import IoPort, IoWork
from broker.network.memory_budget import Account, Lease
from penstock.types import TopicPartition
from storage.segment.cold_read import ColdRead

READS_MAX = 4
"""The most reads of one session, under way or not yet answered, so that other sessions have their turn at the disk."""
AGAIN_MS = 20
"""The pause after a read found the queue full or no memory, if no other read of the session is under way."""


class _Reading:
    """A read in a thread, or its result."""

    __slots__ = ("cold", "is_done", "lease")

    def __init__(self, cold: ColdRead, lease: Lease) -> None:
        self.cold, self.lease = cold, lease
        self.is_done = False


class ColdFetches:
    """Lives as long as its session; `ready` is called with a partition that is worth another look."""

    def __init__(self, io: IoPort, memory: Account, ready: Callable[[TopicPartition], None]) -> None:
        self._io, self._memory, self._ready = io, memory, ready
        self._readings: dict[TopicPartition, _Reading] = {}
        self._later: dict[TopicPartition, None] = {}
        """Cold partitions whose read has not begun, in the order in which they came."""
        self._timer: asyncio.TimerHandle | None = None

    def is_awaited(self, partition: TopicPartition) -> bool:
        """Whether there is nothing to answer before `ready`."""
        reading = self._readings.get(partition)
        return partition in self._later if reading is None else not reading.is_done

    def found(self, partition: TopicPartition) -> ColdRead | None:
        """The finished read of the partition, if there is one."""
        reading = self._readings.get(partition)
        return reading.cold if reading is not None and reading.is_done else None

    def begin(self, partition: TopicPartition, log_dir: str, cold: ColdRead, *, is_replica: bool) -> None:
        """Read in a thread. A follower's read does not wait for memory, because acks wait for followers."""
        self._remove(partition)
        if len(self._readings) < READS_MAX and (is_replica or self._memory.has_room(cold.bytes_max)):
            reading = _Reading(cold, self._memory.take(cold.bytes_max))
            if self._io.submit(log_dir, IoWork.READ, cold.run, lambda: self._done(partition, reading)):
                self._readings[partition] = reading
                return
            reading.lease.release()
        cold.discard()
        self._later[partition] = None
        if not any(not reading.is_done for reading in self._readings.values()) and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AGAIN_MS / 1000, self._again)

    def _done(self, partition: TopicPartition, reading: _Reading) -> None:
        reading.is_done = True
        if self._readings.get(partition) is reading:
            self._ready(partition)
        else:
            reading.lease.release()

    def _again(self) -> None:
        self._timer = None
        self._next()

    def _next(self) -> None:
        """Begins waiting reads, as far as there is room."""
        if self._later:
            partition = next(iter(self._later))
            del self._later[partition]
            self._ready(partition)

    def keep_only(self, partition: TopicPartition, offset: int) -> None:
        """The fetcher is at `offset`: drop a read that begins elsewhere."""
        reading = self._readings.get(partition)
        if reading is not None and reading.cold.wanted.start_offset != offset:
            self.drop(partition)

    def drop(self, partition: TopicPartition) -> None:
        """The read was sent, or is not wanted any more."""
        if self._readings or self._later:
            self._remove(partition)
            self._next()

    def _remove(self, partition: TopicPartition) -> None:
        self._later.pop(partition, None)
        reading = self._readings.pop(partition, None)
        if reading is not None:
            reading.cold.cancel()
            if reading.is_done:
                reading.lease.release()

    def close(self) -> None:
        """The stream is gone; reads that are under way are counted until they end."""
        self._later.clear()
        for partition in tuple(self._readings):
            self.drop(partition)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __repr__(self) -> str:
        return f"ColdFetches({len(self._readings)} read, {len(self._later)} wait)"
