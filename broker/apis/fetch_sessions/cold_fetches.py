"""The reads of one fetch session that wait for a disk: in I/O threads, a few at a time, while the session goes on.

A partition whose records are not in the page cache is left out of the answer that is built now; it is in the next
answer after its records were read. So a cold partition holds up no other. The records are kept until they are sent, or
are not wanted any more: the fetcher moved to another offset, the partition left the session, the stream ended, or the
session has had no request for a while (`let_go`).
`Partition.read` checks that they are still the log's when they are sent.

The bytes of a read are counted in the stream's memory BEFORE it begins, as many as were asked for, and as many as they
are once it has ended. The threads are in `io_threads.py`; readers without a session have
`replication/leader/leader_reads.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from broker.network.io_threads import IoPort, IoWork
from broker.network.memory_budget import Account, Lease
from penstock.types import TopicPartition
from storage.log.later_read import LaterRead

READS_MAX = 4
"""The most reads of one session in one log dir, under way or not yet answered, so that other sessions have their turn
at the disk. A log dir that hangs takes only its own."""
AGAIN_MS = 20
"""The pause between two looks at the reads that have not begun, while no other read of the session is under way."""


class _Reading:
    """A read in a thread, or its result."""

    __slots__ = ("cold", "is_done", "lease", "log_dir")

    def __init__(self, cold: LaterRead, log_dir: str, lease: Lease) -> None:
        self.cold, self.log_dir, self.lease = cold, log_dir, lease
        self.is_done = False


class ColdFetches:
    """Lives as long as its session; `ready` is called with a partition that is worth another look."""

    def __init__(self, io: IoPort, memory: Account, ready: Callable[[TopicPartition], None]) -> None:
        self._io, self._memory, self._ready = io, memory, ready
        self._readings: dict[TopicPartition, _Reading] = {}
        self._later: dict[str, dict[TopicPartition, None]] = {}
        """The cold partitions of each log dir whose read has not begun, in the order in which they came."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_reading(self) -> bool:
        """True if records are being read, or wait for their turn."""
        return any(not reading.is_done for reading in self._readings.values()) or any(self._later.values())

    def is_awaited(self, partition: TopicPartition) -> bool:
        """True if there is nothing to answer before `ready`."""
        reading = self._readings.get(partition)
        if reading is not None:
            return not reading.is_done
        return any(partition in later for later in self._later.values())

    def found(self, partition: TopicPartition) -> LaterRead | None:
        """The finished read of the partition, if there is one.

        One without records is returned once. It ended at a high watermark within the first batch, and a later look has
        to read again, from a higher one.
        """
        reading = self._readings.get(partition)
        if reading is None or not reading.is_done:
            return None
        if not reading.cold.found_bytes:
            self.drop(partition)
        return reading.cold

    @property
    def has_found(self) -> bool:
        """True if finished reads are kept: their memory is free again when they are sent."""
        return any(reading.is_done for reading in self._readings.values())

    def begin(
        self, partition: TopicPartition, log_dir: str, cold: LaterRead, *, is_replica: bool, answer_bytes: int
    ) -> None:
        """Read in a thread. A follower's read does not wait for memory, because acks wait for followers. The
        `answer_bytes` of the answer that is built now do not stand in its way: it is built before the records are read.
        """
        self._remove(partition)
        if self._has_turn(log_dir) and (is_replica or self._memory.has_room(cold.bytes_max, without=answer_bytes)):
            reading = _Reading(cold, log_dir, self._memory.take(cold.bytes_max))
            if self._io.submit(log_dir, IoWork.READ, cold.run, lambda: self._done(partition, reading)):
                self._readings[partition] = reading
                return
            reading.lease.release()
        cold.discard()
        self._later.setdefault(log_dir, {})[partition] = None
        self._look_again()

    def _in_dir(self, log_dir: str) -> Iterator[_Reading]:
        return (reading for reading in self._readings.values() if reading.log_dir == log_dir)

    def _has_turn(self, log_dir: str) -> bool:
        return sum(1 for _ in self._in_dir(log_dir)) < READS_MAX

    def _done(self, partition: TopicPartition, reading: _Reading) -> None:
        reading.is_done = True
        if self._readings.get(partition) is reading:
            reading.lease.resize(reading.cold.found_bytes)  # a batch may be larger than what was asked for
            self._ready(partition)
        else:
            reading.lease.release()

    def _next(self) -> None:
        """Gives the read that waits longest in each log dir its turn. That read may not be needed any more, or may find
        no room, so the others are looked at again in any case."""
        for log_dir, later in self._later.items():
            if later and self._has_turn(log_dir):
                partition = next(iter(later))
                del later[partition]
                self._ready(partition)
        self._look_again()

    def _look_again(self) -> None:
        """Looks at the partitions that wait again when a read of their log dir was sent; after a pause where no read is
        under way."""
        if self._timer is None and any(
            later and all(reading.is_done for reading in self._in_dir(log_dir))
            for log_dir, later in self._later.items()
        ):
            self._timer = asyncio.get_running_loop().call_later(AGAIN_MS / 1000, self._again)

    def _again(self) -> None:
        self._timer = None
        self._next()

    def keep_only(self, partition: TopicPartition, offset: int) -> None:
        """The fetcher is at `offset`: drop a read that begins elsewhere."""
        reading = self._readings.get(partition)
        if reading is not None and reading.cold.start_offset != offset:
            self.drop(partition)

    def drop(self, partition: TopicPartition) -> None:
        """The read was sent, or is not wanted any more."""
        if self._readings or self._later:
            self._remove(partition)
            self._next()

    def let_go(self) -> None:
        """No request waits for any of the reads. They are dropped, and their partitions looked at again with the next
        request: most of their records are in the page cache then."""
        wanted = {*self._readings, *(partition for later in self._later.values() for partition in later)}
        self._drop_all()
        for partition in wanted:
            self._ready(partition)

    def _drop_all(self) -> None:
        self._later.clear()
        for partition in tuple(self._readings):
            self._remove(partition)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove(self, partition: TopicPartition) -> None:
        for later in self._later.values():
            later.pop(partition, None)
        reading = self._readings.pop(partition, None)
        if reading is not None:
            reading.cold.cancel()
            if reading.is_done:
                reading.lease.release()

    def close(self) -> None:
        """The session is over; reads that are under way are counted until they end."""
        self._drop_all()

    def __repr__(self) -> str:
        return f"ColdFetches({len(self._readings)} read, {sum(map(len, self._later.values()))} wait)"
