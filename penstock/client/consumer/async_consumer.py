"""AsyncConsumer: the same consumer for an event loop, the one on which it was first used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Never, TypeVar, Unpack

from penstock.client import forks
from penstock.client.cluster.config import ConsumerConfig
from penstock.client.cluster.foreign_words import (
    CONSUMER_METHODS,
    checked_timeout_ms,
    refuse_arguments,
    with_method_hints,
)
from penstock.client.cluster.option_text import with_option_help
from penstock.client.cluster.typed_options import ConsumerOptions
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_core import ITERATION_POLL_MS, ConsumerCore, ConsumerStatistics
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.raw_buffer import RawBuffer, RawRange
from penstock.client.environment import OTHER_LOOP, ClientEnvironment, given_or_system
from penstock.client.forgotten import OnLoop, close_when_forgotten
from penstock.position import Position
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NOTHING_SEEN,
    MetadataOffset,
    TimestampAndOffset,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ITERATION_BURST = 128
"""`async for` lets the other tasks of the loop run after so many records that needed no wait."""


@with_method_hints(CONSUMER_METHODS)
@with_option_help(ConsumerConfig)
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

    # -- where to read -------------------------------------------------------------------------------------------------

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions from now on; one that stays keeps its position.

        Partitions that a topic gets later are read once they are assigned too, from their first record on where
        `auto_offset_reset` is 'latest'. With that, reading begins at the ends that the logs have now: what is acked
        after this returns is read. A leader that does not tell its end within 3 s is not waited for, and logged.
        """
        self._bind()
        await self._core.fetcher.assign(partitions)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._core.positions.states)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return await self._core.partitions_for(topic)

    async def seek(self, partition: TopicPartition, offset: int | Position, leader_epoch: int = NO_EPOCH) -> None:
        """The next record of the partition is the one at `offset`, or the first after it.

        A `Position`, as `position` and `record.position` give it, is taken only in its own topic: TopicRecreatedError
        where the topic was deleted and made anew since, whatever `auto_offset_reset` says. A plain offset is taken in
        whatever topic has the name now.
        """
        await self._core.seek(partition, offset, leader_epoch)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """To the log start of each partition given, or of all assigned."""
        await self._core.seek_to(partitions, EARLIEST_TIMESTAMP)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """To behind the last readable record of each partition given, or of all assigned; waits as `assign` does."""
        await self._core.seek_to(partitions, LATEST_TIMESTAMP)

    async def position(self, partition: TopicPartition) -> Position:
        """Where the next record that a poll returns is: an offset, with the id of its topic and a leader epoch.

        Keep it as `str(position)`, and `seek` to `Position.parse(text)` to go on there. It compares with offsets.
        """
        return await self._core.position(partition, self._core.config.request_timeout_ms)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._core.beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return await self._core.end_offsets(partitions)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampAndOffset | None]:
        """The first record at or after each time; None where no record is that late."""
        return await self._core.offsets_for_times(times_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return nothing of these partitions, and nothing more of them is fetched, until `resume`.

        They stay assigned, and keep their positions; what was fetched of them is kept. A seek leaves them paused.
        """
        self._core.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return records of these partitions again, from their positions on."""
        self._core.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """The assigned partitions that are paused."""
        return self._core.paused()

    async def lag(self, partition: TopicPartition) -> int:
        """How many offsets the position is behind the readable end of the log; compaction and transactions leave
        offsets without a record.

        By the leader's last answer to a fetch; before one, or where the partition is paused, the leader is asked.
        """
        return await self._core.lag(partition)

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

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None, **others: Never) -> list[ConsumerRecord]:
        """What there is, in order within each partition; waits at most `timeout_ms` for the first record.

        The error of a partition is raised when there is nothing to return, and again by every poll that would end
        empty: the position stays at it until a seek. The other partitions go on. The error of a whole fetch, which
        asking again does not mend, is raised each time that the broker refuses; it is asked again all the same.
        """
        refuse_arguments("poll", others)
        return await self._wait(timeout_ms, lambda: self._core.take_records(max_records))

    async def poll_arrow(
        self, timeout_ms: int = 0, max_records: int | None = None, *, include_headers: bool = False, **others: Never
    ) -> pa.Table:
        """The same as a table: key, value, topic, partition, offset, timestamp, timestampType (and headers)."""
        refuse_arguments("poll_arrow", others)
        from penstock.client.consumer.arrow_table import ArrowOptions, take_table

        options = ArrowOptions(max_records, include_headers)
        return await self._wait(timeout_ms, lambda: take_table(self._core, options))

    async def _wait(self, timeout_ms: int, take: Callable[[], T]) -> T:
        """The first non-empty answer of `take`, or the last one when time is up."""
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
        """Raw record buffers that hold the records `from_offset <= offset < to_offset`; needs no assignment.

        Decode each from its own `from_offset`. With `topic_id`, only of the topic that has it: TopicRecreatedError
        where the name is another's by now. With the `leader_epoch` in which `to_offset` was seen, and the metadata that
        was `seen` before, no broker that has heard less is believed, and a record that replaced another one below
        `to_offset` is a LogTruncationError.
        """
        span = RawRange(TopicPartition(topic, partition), from_offset, to_offset, topic_id, leader_epoch, seen)
        return self._core.raw_fetch(span).buffers()

    # -- end -----------------------------------------------------------------------------------------------------------

    async def waiting_for(self) -> tuple[Waiting, ...]:
        """What keeps assigned partitions from being read, for a person; empty while every broker answers."""
        return await self._core.waiting_for()

    def metrics(self) -> dict[str, int]:
        """Numbers for a monitoring system, by the names that Kafka's consumer has: `records-consumed-total`,
        `records-lag-max`, and of each partition `orders-0.records-lag`. Asks nobody; in any thread."""
        return self._core.metrics()

    def statistics(self) -> ConsumerStatistics:
        """Counts since the consumer was made."""
        return self._core.statistics()

    async def close(self) -> None:
        """Stops fetching and closes every connection. Idempotent."""
        if not self._core.closed:
            await self._core.close()

    async def __aenter__(self) -> AsyncConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self._core.positions.states)} partitions"
        return f"AsyncConsumer({','.join(map(str, self._core.bootstrap))}, {state})"
