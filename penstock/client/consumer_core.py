"""The consumer without its face: what Consumer and AsyncConsumer share.

Taking from the buffer and decoding happen in the caller's thread, so that the loop keeps fetching meanwhile;
everything that changes what is fetched runs on the loop. One thread at a time may use a consumer, as in Kafka. Errors
of a partition are raised by the poll that reaches them, after the records before them were returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.cluster import Cluster
from penstock.client.config import ConsumerConfig, consumer_config
from penstock.client.consumer_record import ConsumerRecord, make_records
from penstock.client.fetch_buffer import FetchBuffer
from penstock.client.fetcher import Fetcher, FetchStatistics
from penstock.client.offsets import list_offsets
from penstock.client.options import parse_bootstrap
from penstock.client.positions import Deliver, Positions
from penstock.clock import Clock, SystemClock
from penstock.errors import ClientClosedError, OffsetOutOfRangeError, TimedOutError, UnknownTopicOrPartitionError
from penstock.record.reader import read_columns
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH, NO_OFFSET, TimestampAndOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counts since the consumer was made."""

    records: int
    polls: int
    buffered_bytes: int
    fetch: FetchStatistics


@dataclass(slots=True)
class _Leftover:
    """Records of an answer that did not fit the last poll."""

    item: Deliver
    records: list[ConsumerRecord]
    at: int


class ConsumerCore:
    """Everything of a consumer but how to wait."""

    def __init__(self, bootstrap: str | Iterable[str], options: dict[str, Any], clock: Clock | None = None) -> None:
        self.config: ConsumerConfig = consumer_config(options)
        self.bootstrap = parse_bootstrap(bootstrap)
        self.clock: Clock = clock or SystemClock()
        self.cluster = Cluster(self.bootstrap, self.config.connection(), self.clock)
        self.positions = Positions(self.config.auto_offset_reset, self.cluster.backoff)
        self.buffer = FetchBuffer(self.config.fetch_max_bytes)
        self.fetcher = Fetcher(self.cluster, self.positions, self.buffer, self.config)
        self.closed = False
        self._leftover: _Leftover | None = None
        self._records = 0
        self._polls = 0

    def start(self, loop: asyncio.AbstractEventLoop, on_ready: Callable[[], object]) -> None:
        """From now on the network half works on `loop`; `on_ready` is called there when there is something to take."""
        self.buffer.on_ready = on_ready
        self.buffer.on_room = lambda: loop.call_soon_threadsafe(self.fetcher.touch)

    # Taking: the caller's thread

    def check_poll(self) -> None:
        """Raises where polling can never return anything."""
        if self.closed:
            raise ClientClosedError("this consumer is closed; make a new one")
        for state in self.positions.states.values():
            if state.position == NO_OFFSET and state.reset_timestamp is None and not state.halted:
                raise OffsetOutOfRangeError(
                    f"{state.topic_partition} has no position and auto_offset_reset is 'none': seek first"
                )

    def take_records(self, max_records: int | None) -> list[ConsumerRecord]:
        """What is there, at most `max_records`; empty when nothing is."""
        limit = self.config.max_poll_records if max_records is None else max_records
        taken: list[ConsumerRecord] = []
        self._polls += 1
        while len(taken) < limit:
            leftover = self._next_decoded(bool(taken))
            if leftover is None:
                break
            records, at = leftover.records, leftover.at
            end = min(len(records), at + limit - len(taken))
            part = records if at == 0 and end == len(records) else records[at:end]
            state = self.positions.states[leftover.item.topic_partition]
            if end < len(records):
                leftover.at = end
                self._leftover = leftover
                state.position = records[end].offset
            else:
                self._leftover = None
                state.position = leftover.item.next_offset
            if taken:
                taken += part
            else:
                taken = part
        self._records += len(taken)
        return taken

    def _next_decoded(self, have_some: bool) -> _Leftover | None:
        if self._leftover is not None and self._current(self._leftover.item):
            return self._leftover
        self._leftover = None
        item = self.next_item(have_some)
        if item is None:
            return None
        position = self.positions.states[item.topic_partition].position
        columns = read_columns(item.records, from_offset=position, check_crc=self.config.check_crcs)
        return _Leftover(item, make_records(item.topic_partition, columns), 0)

    def _current(self, item: Deliver) -> bool:
        state = self.positions.states.get(item.topic_partition)
        return state is not None and state.generation == item.generation

    def next_item(self, have_some: bool) -> Deliver | None:
        """The next bytes to decode; raises a reported error, or leaves it for the next poll when `have_some`."""
        if self._leftover is not None and self._current(self._leftover.item):
            item, self._leftover = self._leftover.item, None
            return item  # its partition's position says where to go on
        while (found := self.buffer.take()) is not None:
            state = self.positions.states.get(found.topic_partition)
            if state is None or state.generation != found.generation:
                continue
            if isinstance(found, Deliver):
                return found
            if have_some:
                self.buffer.put_back(found)
                return None
            raise found.error.with_traceback(None)
        return None

    def leave(self, item: Deliver) -> None:
        """Gives back bytes of which only a part was decoded."""
        self.buffer.put_back(item)

    # Changing: the loop

    def check_assigned(self, tp: TopicPartition) -> TopicPartition:
        tp = TopicPartition(*tp)
        if tp not in self.positions.states:
            raise UnknownTopicOrPartitionError(f"{tp} is not assigned to this consumer; assign it first")
        return tp

    async def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise TypeError(f"offset must be an int, not {type(offset).__name__}")
        if offset < 0:
            raise ValueError(f"offset {offset} is negative; use seek_to_beginning or seek_to_end")
        self.positions.seek(self.check_assigned(tp), offset, leader_epoch)
        self.fetcher.touch()

    async def seek_to(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        """Every partition given, or every one assigned, to a sentinel."""
        for tp in partitions or tuple(self.positions.states):
            self.positions.seek_to_timestamp(self.check_assigned(tp), timestamp)
        self.fetcher.touch()

    async def position(self, tp: TopicPartition, timeout_ms: int) -> int:
        """The next offset that the user gets; looks it up where a reset is due."""
        state = self.positions.states[self.check_assigned(tp)]
        deadline_ms = self.clock.now_ms() + timeout_ms
        while state.position == NO_OFFSET:
            self.check_poll()
            if state.reset_timestamp is None:
                break
            found = await list_offsets(self.cluster, {state.topic_partition: state.reset_timestamp}, timeout_ms)
            self.positions.complete_reset(state.topic_partition, state.generation, found[state.topic_partition].offset)
            if self.clock.now_ms() >= deadline_ms and state.position == NO_OFFSET:
                raise TimedOutError(f"{tp}: no position within {timeout_ms} ms")
        self.fetcher.touch()
        return state.position

    # Offsets

    async def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*tp): timestamp for tp in partitions}
        found = await list_offsets(self.cluster, wanted, self.config.request_timeout_ms)
        return {tp: info.offset for tp, info in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self.offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self.offsets(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampAndOffset | None]:
        for tp, time_ms in times_ms.items():
            if time_ms < 0:
                raise ValueError(f"{tp}: time {time_ms} is negative; it counts milliseconds since 1970")
        wanted = {TopicPartition(*tp): time_ms for tp, time_ms in times_ms.items()}
        found = await list_offsets(self.cluster, wanted, self.config.request_timeout_ms)
        return {
            tp: None
            if info.offset == NO_OFFSET
            else TimestampAndOffset(info.timestamp_ms, info.offset, info.leader_epoch)
            for tp, info in found.items()
        }

    # End

    async def close(self) -> None:
        self.closed = True
        await self.fetcher.close()
        await self.cluster.close()

    def statistics(self) -> ConsumerStatistics:
        return ConsumerStatistics(self._records, self._polls, self.buffer.used_bytes, self.fetcher.statistics())
