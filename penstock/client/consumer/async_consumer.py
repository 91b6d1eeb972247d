"""AsyncConsumer: the same consumer for an event loop, the one on which it was first used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Never, TypeVar, Unpack

from penstock.client import forks
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.consumer_calls import ConsumerCalls
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.raw.raw_buffer import RawBuffer, RawRange
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.faces import at_once, awaited, documented_by, face
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.client.options.config import ConsumerConfig
from penstock.client.options.foreign_words import (
    CONSUMER_METHODS,
    checked_timeout_ms,
    refuse_arguments,
)
from penstock.client.options.typed_options import ConsumerOptions
from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ITERATION_BURST = 128
"""`async for` lets the other tasks of the loop run after so many records that needed no wait."""


@face(ConsumerConfig, CONSUMER_METHODS)
class AsyncConsumer:
    """Reads assigned partitions from one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "127.0.0.1:9192",
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._ready = asyncio.Event()
        self._core = ConsumerCore(bootstrap, options, given_or_system(environment), self._ready.set)
        self._calls = ConsumerCalls(self._core)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._given = 0
        forks.belongs_here(self)

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._core.start(loop)
            close_when_forgotten(self, repr(self), self._core, OnLoop(loop))
        elif self._loop is not loop:
            raise RuntimeError(OTHER_LOOP)

    async def start(self) -> None:
        """Binds to the running loop and reaches the cluster; BootstrapError when it cannot."""
        self._bind()
        await self._core.cluster.wait_ready()

    assign = awaited(ConsumerCalls.assign)
    partitions_for = awaited(ConsumerCalls.partitions_for)
    seek = awaited(ConsumerCalls.seek)
    seek_to_beginning = awaited(ConsumerCalls.seek_to_beginning)
    seek_to_end = awaited(ConsumerCalls.seek_to_end)
    position = awaited(ConsumerCalls.position)
    lag = awaited(ConsumerCalls.lag)
    beginning_offsets = awaited(ConsumerCalls.beginning_offsets)
    end_offsets = awaited(ConsumerCalls.end_offsets)
    offsets_for_times = awaited(ConsumerCalls.offsets_for_times)
    waiting_for = awaited(ConsumerCalls.waiting_for)
    assignment = at_once(ConsumerCalls.assignment)
    pause = at_once(ConsumerCalls.pause)
    resume = at_once(ConsumerCalls.resume)
    paused = at_once(ConsumerCalls.paused)
    metrics = at_once(ConsumerCalls.metrics)
    statistics = at_once(ConsumerCalls.statistics)

    # -- reading -------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncConsumer:
        """`async for record in consumer`: every record as it comes, without end; `poll` gives many at once, which is
        faster. After a `break`, the position is that of the record after the last one given."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        self._core.check_iteration()
        self._given += 1
        if self._given % ITERATION_BURST == 0:
            await asyncio.sleep(0)  # nothing may wait between taking and returning
        found = self._core.take_records(1)
        while not found:
            found = await self.poll(ITERATION_POLL_MS, 1)
        return found[0]

    @documented_by(Consumer.poll)
    async def poll(self, timeout_ms: int = 0, max_records: int | None = None, **others: Never) -> list[ConsumerRecord]:
        refuse_arguments("poll", others)
        return await self._wait(timeout_ms, lambda: self._core.take_records(max_records))

    @documented_by(Consumer.poll_arrow)
    async def poll_arrow(
        self, timeout_ms: int = 0, max_records: int | None = None, *, include_headers: bool = False, **others: Never
    ) -> pa.Table:
        refuse_arguments("poll_arrow", others)
        from penstock.client.consumer.arrow_table import ArrowOptions, take_table

        options = ArrowOptions(max_records, include_headers)
        return await self._wait(timeout_ms, lambda: take_table(self._core, options))

    async def _wait(self, timeout_ms: int, take: Callable[[], T]) -> T:
        """As the plain consumer's, without holding up the loop."""
        checked_timeout_ms(timeout_ms)
        self._bind()
        self._core.check_poll()
        await asyncio.sleep(0)  # the fetcher works on this loop too; nothing may wait between taking and returning
        found: T | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    self._ready.clear()
                    self._core.check_open()
                    self._core.fetcher.maybe_begin_anew()
                    found = take()
                    if len(found):  # type: ignore[arg-type]
                        return found
                    await self._ready.wait()
        except TimeoutError:
            if found is None:
                found = take()
            if not len(found):  # type: ignore[arg-type]
                self._core.reader.raise_standing()
            return found

    @documented_by(Consumer.fetch_raw)
    def fetch_raw(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        to_offset: int,
        topic_id: str = "",
        leader_epoch: int = NO_EPOCH,
        seen: MetadataOffset = NOTHING_SEEN,
    ) -> AsyncIterator[RawBuffer]:
        span = RawRange(TopicPartition(topic, partition), from_offset, to_offset, topic_id, leader_epoch, seen)
        return self._core.raw_fetch(span).buffers()

    # -- end -----------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stops fetching and closes every connection. Idempotent."""
        if not self._core.closed:
            await self._core.close()

    async def __aenter__(self) -> AsyncConsumer:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"AsyncConsumer({','.join(map(str, self._core.bootstrap))}, {state})"
