"""AsyncConsumer: the same consumer for an event loop, the one on which it was first used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Never, TypeVar, Unpack

from penstock.client import forks
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.consumer_calls import ConsumerCalls
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.groups.steps import Callback, RebalanceListener
from penstock.client.consumer.groups.turns import Turns
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
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ConsumerOptions
from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ITERATION_BURST = 128
"""How many records without a wait `async for` gives before it lets the other tasks of the loop run."""


@face(ConsumerConfig, CONSUMER_METHODS)
class AsyncConsumer:
    """Reads topics from one event loop, as a member of a group (`subscribe`) or alone (`assign`)."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._ready = asyncio.Event()
        self._core = ConsumerCore(bootstrap, options, given_or_system(environment), self._ready.set)
        self._calls = ConsumerCalls(self._core)
        self._turns = Turns(self._core)
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
    seek_to_committed = awaited(ConsumerCalls.seek_to_committed)
    position = awaited(ConsumerCalls.position)
    lag = awaited(ConsumerCalls.lag)
    beginning_offsets = awaited(ConsumerCalls.beginning_offsets)
    end_offsets = awaited(ConsumerCalls.end_offsets)
    offsets_for_times = awaited(ConsumerCalls.offsets_for_times)
    waiting_for = awaited(ConsumerCalls.waiting_for)
    commit = awaited(ConsumerCalls.commit)
    committed = awaited(ConsumerCalls.committed)
    commit_async = at_once(ConsumerCalls.commit_async)
    group_positions = at_once(ConsumerCalls.group_positions)
    subscription = at_once(ConsumerCalls.subscription)
    assignment = at_once(ConsumerCalls.assignment)
    pause = at_once(ConsumerCalls.pause)
    resume = at_once(ConsumerCalls.resume)
    paused = at_once(ConsumerCalls.paused)
    metrics = at_once(ConsumerCalls.metrics)
    statistics = at_once(ConsumerCalls.statistics)

    # -- groups --------------------------------------------------------------------------------------------------------

    @documented_by(Consumer.subscribe)
    async def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        self._bind()
        listener = RebalanceListener(on_assigned, on_revoked, on_lost)
        with self._turns.listening(listener, takes_coroutines=True):
            await self._calls.subscribe(topics, pattern)

    @documented_by(Consumer.unsubscribe)
    async def unsubscribe(self) -> None:
        self._bind()
        self._turns.must_not_be_in_callback("unsubscribe")
        self._core.check_open()
        await self._turns.leave_async(is_last_done=True)

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
        found = self._core.take_records(1) if self._core.group is None or self._turns.may_take() else []
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
        """Waits for records as the plain consumer does, without holding up the loop."""
        deadline = asyncio.get_running_loop().time() + checked_timeout_ms(timeout_ms) / 1000
        self._bind()
        self._core.check_poll()
        try:
            self._turns.begin()
            await asyncio.sleep(0)  # the fetcher works on this loop too; nothing may wait between taking and returning
            while True:
                self._ready.clear()
                self._core.check_open()
                self._core.maybe_begin_anew()
                if await self._turns.take_async():
                    self._core.check_poll()
                found = take()
                if len(found):  # type: ignore[arg-type]
                    return found
                if not await self._is_ready_before(deadline):
                    self._core.reader.raise_waiting()
                    return found
        finally:
            self._turns.end()

    async def _is_ready_before(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                await self._ready.wait()
        except TimeoutError:
            return False
        return True

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

    @documented_by(Consumer.close)
    async def close(self) -> None:
        await self._close(is_last_done=True)

    async def _close(self, *, is_last_done: bool) -> None:
        if self._core.closed:
            return
        self._core.begin_close()
        try:
            await self._turns.leave_async(is_last_done=is_last_done)
        finally:
            await self._core.close()

    async def __aenter__(self) -> AsyncConsumer:
        await self.start()
        return self

    @documented_by(Consumer.__exit__)
    async def __aexit__(self, *failure: object) -> None:
        await self._close(is_last_done=failure[0] is None)

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"AsyncConsumer({','.join(map(str, self._core.bootstrap))}, {state})"
