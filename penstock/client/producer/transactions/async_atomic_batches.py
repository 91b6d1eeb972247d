"""AsyncAtomicBatches: the same for an event loop: `writer = await batches.begin(...)`, `async with writer: ...`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from penstock.client import forks
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.faces import documented_by, face
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.async_producer import async_producer_over
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.producer import Producer
from penstock.client.producer.transactions.atomic_batches import (
    NOT_HERE,
    TIMEOUT_MS,
    Abort,
    AtomicBatches,
    AtomicWriter,
)
from penstock.client.producer.transactions.atomic_calls import Begun, Committed
from penstock.client.producer.transactions.batches_core import NOT_SENT, BatchesCore, Leaving
from penstock.client.producer.transactions.writer_pool import PooledProducer
from penstock.errors import TransactionStateError
from penstock.record.builder import HeadersLike
from penstock.types import ProducerIdAndEpoch


@face(ProducerConfig, NOT_HERE)
class AsyncAtomicBatches:
    """Begins writers of atomic batches, and commits or aborts versions, from one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._core = BatchesCore(bootstrap, options, given_or_system(environment))
        self._loop: asyncio.AbstractEventLoop | None = None
        forks.belongs_here(self)

    async def start(self) -> None:
        """Binds to the running loop and reaches the cluster; BootstrapError when it cannot."""
        self._bind()
        await self._core.cluster.wait_ready()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            close_when_forgotten(self, repr(self), self._core, OnLoop(loop), NOT_SENT)
        elif self._loop is not loop:
            raise RuntimeError(OTHER_LOOP)

    @documented_by(AtomicBatches.begin)
    async def begin(
        self,
        application: str,
        version: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
        run: str = "",
        goes_back: bool = False,
        one_off: bool = False,
    ) -> AsyncAtomicWriter | None:
        self._bind()
        begun = await self._core.begin(application, version, timeout_ms, run, goes_back, one_off)
        if begun is None:
            return None
        return AsyncAtomicWriter(self, self._core, *begun, partial(self._core.abort_writer, application, run))

    @documented_by(AtomicBatches.commit)
    async def commit(
        self,
        application: str,
        version: int,
        writers: Iterable[ProducerIdAndEpoch | tuple[int, int]],
        *,
        run: str = "",
        goes_back: bool = False,
        records: int = -1,
        checksum: int = 0,
    ) -> Committed:
        self._bind()
        return await self._core.commit(application, version, writers, run, goes_back, records, checksum)

    @documented_by(AtomicBatches.abort)
    async def abort(self, application: str, version: int, *, run: str = "") -> bool:
        self._bind()
        return await self._core.abort(application, version, run)

    @documented_by(AtomicBatches.abort_writers)
    async def abort_writers(
        self,
        application: str,
        writers: Iterable[ProducerIdAndEpoch | tuple[int, int]],
        *,
        run: str = "",
        timeout: float | None = None,
    ) -> None:
        self._bind()
        await self._core.abort_writers(application, writers, run, timeout)

    @documented_by(AtomicBatches.last_version)
    async def last_version(self, application: str, timeout: float | None = None) -> int:
        self._bind()
        return await self._core.last_version(application, timeout)

    @documented_by(AtomicBatches.close)
    async def close(self) -> None:
        await self._core.close()

    async def __aenter__(self) -> AsyncAtomicBatches:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAtomicBatches({self._core.name()})"


class AsyncAtomicWriter:
    """One writer of one version, on the loop of its AsyncAtomicBatches."""

    def __init__(
        self, batches: AsyncAtomicBatches, core: BatchesCore, begun: Begun, producer: PooledProducer, abort: Abort
    ) -> None:
        self.identity = begun.identity
        """Names it to `commit`: a producer id and an epoch."""
        self.transactional_id = begun.transactional_id
        self._batches = batches  # it is not dropped while a writer lives
        self._state = producer.state
        self._producer = async_producer_over(producer.core)
        self._leaving = Leaving(core.pool, producer)
        self._abort = abort
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), self._leaving, OnLoop(asyncio.get_running_loop()), NOT_SENT)

    def _must_be_open(self) -> None:
        if self._leaving.closed:
            raise TransactionStateError(f"{self!r}: begin another one")

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
        self._must_be_open()
        return await self._producer.send(topic, value, key, headers, partition, timestamp_ms)

    @documented_by(Producer.send_many)
    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        self._must_be_open()
        return await self._producer.send_many(topic, values, keys, partition, timestamp_ms)

    @documented_by(AtomicWriter.flush)
    async def flush(self, timeout: float | None = None) -> None:
        self._must_be_open()
        await self._producer.flush(timeout)
        self._state.check_takes()

    @documented_by(AtomicWriter.abort)
    async def abort(self, timeout: float | None = None) -> None:
        await self.close()
        await self._abort(self.identity, timeout)

    @documented_by(AtomicWriter.close)
    async def close(self) -> None:
        await self._leaving.end()

    async def __aenter__(self) -> AsyncAtomicWriter:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    def __repr__(self) -> str:
        return f"AsyncAtomicWriter({self.transactional_id}, epoch {self.identity.epoch})"
