"""The calls of a producer, once for both faces: records that wait for their topic or for memory, bulk, flush, close.

The calls wait through `Waits`, which each face has for its callers: threads, or tasks of one event loop. A thread that
waits has the result at once, so for a plain producer no call ever suspends (`finished` of faces.py), and everything but
the network runs in the caller's thread. Not here: how a record is checked and appended (producer_core.py), and `send`,
which each face has by itself, because a layer more would cost up to a tenth of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, ParamSpec, Protocol

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.bulk.bulk_plan import BulkPlan
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.pending_record import NotAppended, PendingRecord
from penstock.client.producer.producer_core import ProducerCore
from penstock.errors import TimedOutError

P = ParamSpec("P")

MEMORY_WAIT_SECONDS: Final = 0.5
"""A wait for memory looks again at least this often: what a partition may have changes with time, too (memory.py)."""

_log = logging.getLogger(__name__)


class Waits(Protocol):
    """How the callers of one face wait."""

    async def topic(self, topic: str, partition: int | None) -> None:
        """Waits until the topic is known, with the partition; raises as `ProducerCore.wait_topic` does."""
        ...

    async def memory(self, seen_available: int, seconds: float) -> None:
        """Waits until memory was given back since `seen_available` bytes were free, at most `seconds`."""
        ...

    async def turn(self) -> None:
        """Lets others work, between two batches of a bulk."""
        ...

    async def acked(self, timeout: float | None) -> None:
        """Waits until every record is acked or has failed; TimedOutError after `timeout` seconds."""
        ...

    async def ran(self, call: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **more: P.kwargs) -> None:
        """Runs a call on the producer's loop to its end, even while the producer is being closed."""
        ...


class ProducerCalls:
    """The calls of one face. `kind` is the name of its class."""

    def __init__(self, core: ProducerCore, waits: Waits, kind: str) -> None:
        self._core, self._waits, self._kind = core, waits, kind

    async def append_later(
        self, topic: str, record: PendingRecord, partition: int | None, refusal: NotAppended, seen: int
    ) -> RecordFuture:
        """Appends a record that could not be appended at once: it waits for its topic, or for memory. `seen` bytes of
        memory were free at that attempt."""
        core = self._core
        deadline_ms = core.clock.now_ms() + core.config.max_block_ms
        answer: RecordFuture | NotAppended = refusal
        while isinstance(answer, NotAppended):
            if answer is NotAppended.NO_TOPIC:
                await self._waits.topic(topic, partition)
            else:
                await self._wait_memory(seen, deadline_ms)
            seen = core.memory.available_bytes
            answer = core.append(topic, record, partition)
        return answer

    async def _wait_memory(self, seen: int, deadline_ms: int) -> None:
        core = self._core
        left_ms = deadline_ms - core.clock.now_ms()
        if left_ms <= 0:
            raise core.buffer_exhausted()
        with core.memory.waiting():
            core.sender.wake()
            await self._waits.memory(seen, min(left_ms / 1000, MEMORY_WAIT_SECONDS))

    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        """Queues an iterable of bytes, or an Arrow array, in bulk; the promise is of all of them together.

        Waits while the buffer is full. When it raises, what was queued before is sent all the same.
        """
        core = self._core
        core.pending(None, None, None, timestamp_ms)
        while not core.knows(topic, partition):
            await self._waits.topic(topic, partition)
        plan = BulkPlan(core, topic, partition, timestamp_ms)
        taken: list[tuple[ProducerBatch, int, int]] = []
        for queue, encoded, count in plan.batches(values, keys):
            taken.append((await self._append_bulk(queue, encoded, count), 0, count))
            await self._waits.turn()
        return BulkFuture(taken)

    async def _append_bulk(self, queue: PartitionQueue, encoded: bytes, count: int) -> ProducerBatch:
        deadline_ms = self._core.clock.now_ms() + self._core.config.max_block_ms
        while True:
            seen = self._core.memory.available_bytes
            batch = self._core.append_bulk(queue, encoded, count)
            if batch is not None:
                return batch
            await self._wait_memory(seen, deadline_ms)

    async def flush(self, timeout: float | None = None) -> None:
        """Sends everything now and waits until it is acked or has failed; TimedOutError after `timeout` seconds."""
        with self._core.accumulator.flush():
            self._core.sender.wake()
            await self._waits.acked(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flushes and closes; what is not acked within `timeout` seconds fails. Idempotent.

        An open transaction is aborted.
        """
        core = self._core
        if core.closed:
            return
        core.begin_close()
        try:
            await self._waits.ran(core.transactions.close, timeout)
            await self.flush(timeout)
        except TimedOutError:
            if timeout is None:
                raise
            unacked = core.unacked_records()
            client = f"{self._kind}({self.name()})"
            _log.warning("%s: %d records were not acked within the %g s of its close", client, unacked, timeout)
        finally:
            await self._waits.ran(core.finish_close)

    def name(self) -> str:
        """The text for a person."""
        return f"{','.join(map(str, self._core.bootstrap))}, {'closed' if self._core.closed else 'open'}"

    def __repr__(self) -> str:
        return f"ProducerCalls({self.name()})"
