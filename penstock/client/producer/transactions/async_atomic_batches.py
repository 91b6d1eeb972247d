"""AsyncAtomicBatches: the same for an event loop: `writer = await batches.begin(...)`, `async with writer: ...`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from penstock.client import forks
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.faces import awaited, awaited_made, awaited_within, documented_by, face, named
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.async_producer import AsyncProducer, async_producer_over
from penstock.client.producer.transactions import part_sends
from penstock.client.producer.transactions.atomic_batches import NOT_HERE, AtomicBatches
from penstock.client.producer.transactions.batches_core import NOT_SENT, BatchesCore, OpenWriter, WriterCalls


@named
class AsyncAtomicWriter:
    """One writer of one version, on the loop of its AsyncAtomicBatches."""

    def __init__(self, batches: AsyncAtomicBatches, writer: OpenWriter) -> None:
        self.identity = writer.identity
        """Names it to `commit`: a producer id and an epoch."""
        self.transactional_id = writer.transactional_id
        self._batches = batches  # it is not dropped while a writer lives
        self._producer = async_producer_over(writer.core)
        self._writer = writer
        self._calls = WriterCalls(writer, self._producer._calls)
        self._must_be_open = self._calls.must_be_open
        forks.belongs_here(self)
        close_when_forgotten(self, repr(self), writer, OnLoop(asyncio.get_running_loop()), NOT_SENT)

    def _bind(self) -> None:
        self._batches._bind()

    send = awaited_within(part_sends.send, AsyncProducer.send.__doc__)
    send_many = awaited_within(part_sends.send_many, AsyncProducer.send_many.__doc__)
    flush = awaited(WriterCalls.flush)
    abort = awaited(WriterCalls.abort)
    close = awaited(WriterCalls.close)

    async def __aenter__(self) -> AsyncAtomicWriter:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    def __repr__(self) -> str:
        return f"AsyncAtomicWriter({self._writer.name()})"


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
        self._calls = BatchesCore(bootstrap, options, given_or_system(environment))
        self._loop: asyncio.AbstractEventLoop | None = None
        forks.belongs_here(self)

    async def start(self) -> None:
        """Binds to the running loop and reaches the cluster; BootstrapError when it cannot."""
        self._bind()
        await self._calls.cluster.wait_ready()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            close_when_forgotten(self, repr(self), self._calls, OnLoop(loop), NOT_SENT)
        elif self._loop is not loop:
            raise RuntimeError(OTHER_LOOP)

    begin = awaited_made(BatchesCore.begin, AsyncAtomicWriter)
    commit = awaited(BatchesCore.commit)
    abort = awaited(BatchesCore.abort)
    abort_writers = awaited(BatchesCore.abort_writers)
    last_version = awaited(BatchesCore.last_version)

    @documented_by(AtomicBatches.close)
    async def close(self) -> None:
        await self._calls.close()

    async def __aenter__(self) -> AsyncAtomicBatches:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAtomicBatches({self._calls.name()})"
