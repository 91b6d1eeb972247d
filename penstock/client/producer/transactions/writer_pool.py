"""The producers that writers of atomic batches use, each by one writer at a time.

A writer is cheap to begin: it takes a producer that another has left, with its memory, its streams and what it knows of
topics, and gives it an id and epoch of its own. All have one way to the brokers. A producer that a writer leaves comes
back when nothing of that writer waits any more. On the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.environment import ClientEnvironment
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.atomic_calls import Begun
from penstock.client.producer.transactions.batch_writer_core import BatchWriterCore
from penstock.client.producer.transactions.whole_flush import flush_whole
from penstock.errors import TransactionStateError

OPEN_MAX: Final = 100
"""Writers that one client has open; each has `buffer_memory`."""


class PooledProducer:
    """A producer, and the writer that has it."""

    def __init__(self, core: ProducerCore, state: BatchWriterCore) -> None:
        self.core, self.state = core, state

    def __repr__(self) -> str:
        return f"PooledProducer({self.state!r})"


class WriterPool:
    """Keeps the producers of the writers of one `AtomicBatches`, and gives each to one writer at a time."""

    def __init__(self, cluster: ClusterClient, options: Mapping[str, Any], environment: ClientEnvironment) -> None:
        self._make: Callable[[BatchWriterCore], ProducerCore] = lambda writer: ProducerCore(
            ",".join(map(str, cluster.bootstrap)), options, environment, cluster, writer
        )
        self._idle: list[PooledProducer] = []
        self._open: dict[PooledProducer, None] = {}
        self._closing: dict[PooledProducer, asyncio.Task[None]] = {}
        self._is_closed = False

    def check_room(self) -> None:
        """Checks that a writer may begin; else TransactionStateError."""
        if len(self._open) >= OPEN_MAX:
            raise TransactionStateError(f"{OPEN_MAX} writers of this client are open: close those that are done")

    def begin(self, begun: Begun) -> PooledProducer:
        """A producer for this writer alone."""
        if self._idle:
            taken = self._idle.pop()
        else:
            state = BatchWriterCore()
            taken = PooledProducer(self._make(state), state)
            taken.core.start(asyncio.get_running_loop())
        self._open[taken] = None
        taken.state.begin(*begun)
        taken.core.sender.on_producer_id(begun.identity)
        return taken

    async def end(self, left: PooledProducer) -> None:
        """Nothing of its writer is sent any more. Goes on where the caller leaves. Idempotent."""
        if left in self._open and left not in self._closing:
            self._closing[left] = asyncio.ensure_future(self._end(left))
        if (closing := self._closing.get(left)) is not None:
            await asyncio.shield(closing)

    async def _end(self, left: PooledProducer) -> None:
        left.state.begin_close()
        left.core.sender.wake()
        await flush_whole(left.core.accumulator, left.core.sender)
        self._open.pop(left, None)
        self._closing.pop(left, None)
        if not self._is_closed:
            self._idle.append(left)

    def begin_close(self) -> None:
        """Lets no open writer take a further record."""
        for one in self._open:
            one.core.begin_close()

    def unacked_records(self) -> int:
        return sum(one.core.unacked_records() for one in tuple(self._open))

    async def close(self) -> None:
        """Ends all traffic; records that are not acked fail."""
        self._is_closed = True
        self.begin_close()
        for one in (*self._open, *self._idle):
            one.state.begin_close()
        await asyncio.gather(*(one.core.finish_close() for one in (*self._open, *self._idle)))
        await asyncio.gather(*self._closing.values(), return_exceptions=True)
        self._idle.clear()

    def __repr__(self) -> str:
        return f"WriterPool({len(self._open)} open, {len(self._idle)} idle)"
