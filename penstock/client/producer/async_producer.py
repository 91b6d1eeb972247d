"""AsyncProducer: the same producer for an event loop.

`await send(...)` waits only for a topic's first metadata and for memory, and returns the promise, which can be
awaited in turn. Everything works on the loop that runs `start` (or the first send); it is not thread-safe, as asyncio
objects are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Unpack

from penstock.client import forks
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.faces import at_once, awaited, documented_by, face
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.foreign_words import PRODUCER_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.future import RecordFuture, when_done
from penstock.client.producer.pending_record import NotAppended
from penstock.client.producer.producer import Producer
from penstock.client.producer.producer_calls import ProducerCalls
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.async_transaction import AsyncTransaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.errors import TimedOutError
from penstock.record.builder import HeadersLike

P = ParamSpec("P")


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
        self._core, self._transactions = core, core.transactions
        self._calls = ProducerCalls(core, _Task(core), "AsyncProducer")
        self._loop = loop

    partitions_for = awaited(ProducerCore.partitions_for, "_core")
    metrics = at_once(ProducerCore.metrics, "_core")
    statistics = at_once(ProducerCore.statistics, "_core")

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
        seen = core.memory.available_bytes
        answer = core.append(topic, record, partition)
        if isinstance(answer, NotAppended):
            return await self._calls.append_later(topic, record, partition, answer, seen)
        return answer

    send_many = awaited(ProducerCalls.send_many)
    flush = awaited(ProducerCalls.flush)
    waiting_for = awaited(ProducerCore.waiting_for, "_core")

    # -- transactions --------------------------------------------------------------------------------------------------

    @documented_by(Producer.transaction)
    def transaction(self) -> AsyncTransaction:
        self._core.transactions.checked("transaction")
        self._bind()
        return AsyncTransaction(self, self._core.transactions)

    begin_transaction = awaited(TransactionCalls.begin_transaction, "_transactions")
    commit_transaction = awaited(TransactionCalls.commit_transaction, "_transactions")
    abort_transaction = awaited(TransactionCalls.abort_transaction, "_transactions")
    send_offsets = awaited(TransactionCalls.send_offsets, "_transactions")

    # -- end -----------------------------------------------------------------------------------------------------------

    @documented_by(ProducerCalls.close)
    async def close(self, timeout: float | None = None) -> None:
        await self._calls.close(timeout)

    async def __aenter__(self) -> AsyncProducer:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncProducer({self._calls.name()})"


class _Task:
    """Waits in a task of the producer's loop."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    async def topic(self, topic: str, partition: int | None) -> None:
        await self._core.wait_topic(topic, partition)

    async def memory(self, seen_available: int, seconds: float) -> None:
        """Nothing is given back between the look and this call: all of it happens on this loop."""
        loop, freed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(freed.set)

        self._core.memory.subscribe(wake)
        try:
            async with asyncio.timeout(seconds):
                await freed.wait()
        except TimeoutError:
            pass
        finally:
            self._core.memory.unsubscribe(wake)

    async def turn(self) -> None:
        await asyncio.sleep(0)  # the sender works on this loop too

    async def acked(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                for batch in self._core.partitions.unfinished():
                    if not batch.done:
                        await when_done(batch)
        except TimeoutError:
            raise TimedOutError(
                f"flush: not everything was acked within {timeout} s; it may still be written"
            ) from None

    async def ran(self, call: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **more: P.kwargs) -> None:
        await call(*args, **more)

    def __repr__(self) -> str:
        return f"_Task({self._core!r})"


def async_producer_over(core: ProducerCore) -> AsyncProducer:
    """The face of a core that somebody else starts and closes, on the running loop."""
    made = AsyncProducer.__new__(AsyncProducer)
    made._take(core, asyncio.get_running_loop())
    return made
