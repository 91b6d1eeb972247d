"""AsyncProducer: the same producer for an event loop.

`await send(...)` waits only for a topic's first metadata and for memory, and returns the promise, which can be
awaited in turn. Everything works on the loop that runs `start` (or the first send); it is not thread-safe, as asyncio
objects are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from penstock.client import forks
from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.cluster.waiting import Waiting
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.faces import at_once, awaited, documented_by, face
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.foreign_words import PRODUCER_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.bulk.bulk_plan import BulkPlan
from penstock.client.producer.future import BulkFuture, RecordFuture, when_done
from penstock.client.producer.pending_record import NotAppended
from penstock.client.producer.producer import Producer
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.async_transaction import AsyncTransaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.errors import TimedOutError
from penstock.record.builder import HeadersLike


@face(ProducerConfig, PRODUCER_METHODS)
class AsyncProducer:
    """Sends records to topics from one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._take(ProducerCore(bootstrap, options, given_or_system(environment)), None)
        forks.belongs_here(self)

    def _take(self, core: ProducerCore, loop: asyncio.AbstractEventLoop | None) -> None:
        self._core = self._calls = core
        self._loop = loop

    partitions_for = awaited(ProducerCore.partitions_for)
    metrics = at_once(ProducerCore.metrics)
    statistics = at_once(ProducerCore.statistics)

    async def start(self) -> None:
        """Binds to the running loop and reaches the cluster; BootstrapError when it cannot."""
        self._bind()
        await self._core.cluster.wait_ready()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._core.start(loop)
            name = f"{self!r} with client_id {self._core.config.client_id!r}"
            close_when_forgotten(self, name, self._core, OnLoop(loop))
        elif self._loop is not loop:
            raise RuntimeError(OTHER_LOOP)

    @documented_by(Producer.send)
    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        core = self._core
        self._bind()
        record = core.pending(key, value, headers, timestamp_ms)
        deadline_ms = core.clock.now_ms() + core.config.max_block_ms
        while True:
            answer = core.append(topic, record, partition)
            if not isinstance(answer, NotAppended):
                return answer
            if answer is NotAppended.NO_TOPIC:
                await core.wait_topic(topic, partition)
            else:
                await self._wait_memory(deadline_ms)

    async def _wait_memory(self, deadline_ms: int) -> None:
        core = self._core
        left_ms = deadline_ms - core.clock.now_ms()
        if left_ms <= 0:
            raise core.buffer_exhausted()
        loop = asyncio.get_running_loop()
        freed = asyncio.Event()
        core.memory.subscribe(lambda: loop.call_soon_threadsafe(freed.set))
        try:
            with core.memory.waiting():
                core.sender.wake()
                async with asyncio.timeout(left_ms / 1000):
                    await freed.wait()
        except TimeoutError:
            raise core.buffer_exhausted() from None

    @documented_by(Producer.send_many)
    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        core = self._core
        self._bind()
        core.pending(None, None, None, timestamp_ms)
        while not core.knows(topic, partition):
            await core.wait_topic(topic, partition)
        taken: list[tuple[ProducerBatch, int, int]] = []
        for queue, encoded, count in BulkPlan(core, topic, partition, timestamp_ms).batches(values, keys):
            deadline_ms = core.clock.now_ms() + core.config.max_block_ms
            while (batch := core.append_bulk(queue, encoded, count)) is None:
                await self._wait_memory(deadline_ms)
            taken.append((batch, 0, count))
            await asyncio.sleep(0)  # the sender works on this loop too
        return BulkFuture(taken)

    @documented_by(Producer.flush)
    async def flush(self, timeout: float | None = None) -> None:
        accumulator = self._core.accumulator
        try:
            with accumulator.flush():
                self._core.sender.wake()
                async with asyncio.timeout(timeout):
                    for batch in accumulator.partitions.unfinished():
                        if not batch.done:
                            await when_done(batch)
        except TimeoutError:
            raise TimedOutError(
                f"flush: not everything was acked within {timeout} s; it may still be written"
            ) from None

    # -- transactions --------------------------------------------------------------------------------------------------

    @documented_by(Producer.transaction)
    def transaction(self) -> AsyncTransaction:
        self._core.transactions.checked("transaction")
        self._bind()
        return AsyncTransaction(self, self._core.transactions)

    @documented_by(TransactionCalls.begin_transaction)
    async def begin_transaction(self) -> None:
        self._bind()
        await self._core.transactions.begin_transaction()

    @documented_by(TransactionCalls.commit_transaction)
    async def commit_transaction(self) -> None:
        self._bind()
        await self._core.transactions.commit_transaction()

    @documented_by(TransactionCalls.abort_transaction)
    async def abort_transaction(self) -> None:
        self._bind()
        await self._core.transactions.abort_transaction()

    @documented_by(TransactionCalls.send_offsets)
    async def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        self._bind()
        await self._core.transactions.send_offsets(consumer, positions)

    # -- end -----------------------------------------------------------------------------------------------------------

    @documented_by(Producer.waiting_for)
    async def waiting_for(self) -> tuple[Waiting, ...]:
        return await self._core.waiting_for()

    @documented_by(Producer.close)
    async def close(self, timeout: float | None = None) -> None:
        if self._core.closed:
            return
        self._core.begin_close()
        try:
            await self._core.transactions.close(timeout)
            await self.flush(timeout)
        except TimedOutError:
            if timeout is None:
                raise
        finally:
            await self._core.finish_close()

    async def __aenter__(self) -> AsyncProducer:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else "open"
        return f"AsyncProducer({','.join(map(str, self._core.bootstrap))}, {state})"


def async_producer_over(core: ProducerCore) -> AsyncProducer:
    """The face of a core that somebody else starts and closes, on the running loop."""
    made = AsyncProducer.__new__(AsyncProducer)
    made._take(core, asyncio.get_running_loop())
    return made
