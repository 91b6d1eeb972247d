"""The consumer without its face: what Consumer and AsyncConsumer share.

Taking from the buffer and decoding happen in the caller's thread, so that the loop keeps fetching meanwhile;
everything that changes what is fetched runs on the loop. One thread at a time may use a consumer, as in Kafka. What is
handed over, and when an error is raised, is decided in reader.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_mapping,
    checked_number,
    checked_partition,
    checked_partitions,
    checked_topic,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.config import ConsumerConfig, consumer_config
from penstock.client.cluster.offsets import list_offsets
from penstock.client.cluster.options import parse_bootstrap
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_record import ConsumerRecord, make_records
from penstock.client.consumer.fetch_buffer import FetchBuffer
from penstock.client.consumer.fetcher import Fetcher, FetchStatistics
from penstock.client.consumer.positions import Deliver, Positions
from penstock.client.consumer.raw_buffer import RawRange
from penstock.client.consumer.raw_fetch import RawFetch
from penstock.client.consumer.reader import Reader
from penstock.client.environment import ClientEnvironment
from penstock.client.wire.large_buffers import reuse_large_buffers
from penstock.errors import (
    ClientClosedError,
    OffsetOutOfRangeError,
    TimedOutError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from penstock.position import Position
from penstock.record.reader import RecordColumns, read_columns
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH, NO_OFFSET, TimestampAndOffset, TopicPartition

POLL_BYTES = 8 * 1024 * 1024
"""One poll gives no more pieces after so many bytes: what it gave is kept until its end, in case it fails, and with
large records memory that could be used again would be asked for anew instead."""

ITERATION_POLL_MS = 1_000
"""A loop over the records of a consumer polls again after so long without a record."""


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counts since the consumer was made."""

    records: int
    polls: int
    buffered_bytes: int
    fetch: FetchStatistics


@dataclass(slots=True)
class _Leftover:
    """What a poll has decoded and not given: the records of `piece` from row `at` on."""

    piece: Deliver
    records: list[ConsumerRecord]
    at: int


class ConsumerCore:
    """Everything of a consumer but how to wait. It calls `on_ready` on the loop when there is something to take."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        options: Mapping[str, Any],
        environment: ClientEnvironment,
        on_ready: Callable[[], object],
    ) -> None:
        self.config: ConsumerConfig = consumer_config(options)
        self.bootstrap = parse_bootstrap(bootstrap, "Consumer")
        self.clock = environment.clock
        self._threads = environment.threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self.cluster = ClusterClient(self.bootstrap, self.config.connection(), environment)
        self.positions = Positions(self.config.auto_offset_reset, self.cluster.backoff)
        self.cluster.tracked.add_user(self)
        self.buffer = FetchBuffer(self.config.fetch_max_bytes, environment.threads, self._on_room)
        self.reader = Reader(self.positions, self.buffer)
        self.fetcher = Fetcher(self.cluster, self.positions, self.buffer, self.config, on_ready)
        self.closed = False
        self._on_ready = on_ready
        self._raw_fetches: dict[RawFetch, None] = {}
        self._leftover: _Leftover | None = None
        self._records = 0
        self._polls = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the network half works on `loop`."""
        reuse_large_buffers()
        self._loop = loop

    def _on_room(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.fetcher.touch)

    # -- TopicUser -----------------------------------------------------------------------------------------------------

    def topics_in_use(self, since_ms: int) -> set[str]:
        """Topics of assigned partitions."""
        return {tp.topic for tp in self.positions.states}

    def forget_topic(self, topic: str) -> None:
        """Nothing is kept of a topic without an assigned partition."""

    # -- taking: the caller's thread -----------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed:
            raise ClientClosedError("this consumer is closed; make a new one")

    def check_poll(self) -> None:
        """Raises where polling can never return anything."""
        self.check_open()
        for state in self.positions.states.values():
            if state.position == NO_OFFSET and state.reset_timestamp is None and not state.halted:
                raise OffsetOutOfRangeError(
                    f"{state.topic_partition} has no position and auto_offset_reset is 'none': seek first"
                )

    def check_iteration(self) -> None:
        """Raises where a loop over the records would never get one."""
        self.check_open()
        if not self.positions.states:
            raise ValueError("nothing is assigned, so no record comes; assign(partitions_for(topic)) first")

    def take_records(self, max_records: int | None) -> list[ConsumerRecord]:
        """What is there, at most `max_records`; empty when nothing is."""
        limit = self.config.max_poll_records if max_records is None else checked_number("max_records", max_records, 0)
        taken: list[ConsumerRecord] = []
        size_bytes = 0
        with self.reader.turn():
            while len(taken) < limit and size_bytes < POLL_BYTES:
                piece = self.reader.next_piece()
                if piece is None:
                    break
                size_bytes += len(piece.records)
                part = self._take_rows(piece, limit - len(taken))
                if taken:
                    taken += part
                else:
                    taken = part
        if not taken:
            self.reader.raise_new()
        self.count(len(taken))
        return taken

    def count(self, records: int) -> None:
        """A poll has given so many records."""
        self._polls += 1
        self._records += records

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for state in [self.positions.states[self.check_assigned(tp)] for tp in checked_partitions(partitions)]:
            self.reader.pause(state)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for state in [self.positions.states[self.check_assigned(tp)] for tp in checked_partitions(partitions)]:
            self.reader.resume(state)
        self._on_room()

    def paused(self) -> list[TopicPartition]:
        return [tp for tp, state in self.positions.states.items() if state.paused]

    def _take_rows(self, piece: Deliver, count: int) -> list[ConsumerRecord]:
        """At most `count` records of the piece; the others stay decoded for the next poll."""
        left, self._leftover = self._leftover, None
        if left is None or left.piece is not piece:
            columns, piece = self.reader.decode(piece, self._read_columns)
            left = _Leftover(piece, make_records(piece.topic_partition, columns, piece.origin), 0)
        records, at = left.records, left.at
        end = min(len(records), at + count)
        if end < len(records):
            rest = self.reader.give_part(piece, records[end].offset)
            self._leftover = _Leftover(rest, records, end)
        else:
            self.reader.give(piece)
        return records if at == 0 and end == len(records) else records[at:end]

    def _read_columns(self, records: bytes, from_offset: int) -> RecordColumns:
        return read_columns(records, from_offset=from_offset, check_crc=self.config.check_crcs)

    # -- changing: the loop --------------------------------------------------------------------------------------------

    def check_assigned(self, tp: TopicPartition) -> TopicPartition:
        tp = checked_partition(tp)
        if tp not in self.positions.states:
            raise UnknownTopicOrPartitionError(f"{tp} is not assigned to this consumer; assign it first")
        return tp

    async def seek(self, tp: TopicPartition, offset: int | Position, leader_epoch: int = NO_EPOCH) -> None:
        if isinstance(offset, Position):
            if leader_epoch != NO_EPOCH:
                raise TypeError("a Position has its leader epoch; leave out leader_epoch")
            await self._seek_position(self.check_assigned(tp), offset)
            return
        if isinstance(offset, str) and ":" in offset:
            raise TypeError(f"offset={offset!r} must be an int or a Position; write Position.parse({offset!r})")
        if offset in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            raise ValueError(f"offset {offset} is negative; use seek_to_beginning or seek_to_end")
        checked_number("offset", offset, 0)
        checked_number("leader_epoch", leader_epoch, NO_EPOCH, MAX_INT32)
        self.positions.seek(self.check_assigned(tp), offset, leader_epoch)
        self.fetcher.touch()

    async def _seek_position(self, tp: TopicPartition, position: Position) -> None:
        """Only in the topic that the position is of. A broker that is behind may not know that topic yet."""
        wanted = position.topic_id
        if not wanted:
            raise ValueError(f"{position!r} is of no topic: only a consumer and its records give positions to keep")
        await self.cluster.meet_topic(tp.topic, wanted)
        found = self.cluster.cache.topic_id(tp.topic)
        if not found:
            raise UnknownTopicOrPartitionError(f"{tp} does not exist any more: was the topic deleted?")
        if found != wanted:
            raise TopicRecreatedError(tp.topic, tp.partition, expected_id=wanted, found_id=found)
        self.positions.seek(tp, position.offset, position.leader_epoch, wanted)
        self.fetcher.touch()

    async def seek_to(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        """Every partition given, or every one assigned, to a sentinel."""
        for tp in partitions or tuple(self.positions.states):
            self.positions.seek_to_timestamp(self.check_assigned(tp), timestamp)
        self.fetcher.touch()
        if timestamp == LATEST_TIMESTAMP:
            await self.fetcher.wait_placed()

    def known_position(self, tp: TopicPartition) -> Position | None:
        """The position of a partition, where no look-up is needed. In any thread."""
        state = self.positions.states.get(tp)
        return state.place if state is not None else None

    async def position(self, tp: TopicPartition, timeout_ms: int) -> Position:
        """Where the user gets the next record; looks it up where a reset is due."""
        state = self.positions.states[self.check_assigned(tp)]
        deadline_ms = self.clock.now_ms() + timeout_ms
        while state.position == NO_OFFSET:
            self.check_poll()
            if state.reset_timestamp is None:
                break
            found = await list_offsets(self.cluster, {state.topic_partition: state.reset_timestamp}, timeout_ms)
            self.positions.complete_reset(state.topic_partition, state.generation, found[state.topic_partition].offset)
            if self.clock.now_ms() >= deadline_ms and state.position == NO_OFFSET:
                raise TimedOutError(f"{tp}: its position was not found within {timeout_ms} ms; try again, or seek")
        self.fetcher.touch()
        place = state.place
        if place is None:
            raise UnknownTopicOrPartitionError(f"{tp} does not exist any more: was the topic deleted?")
        return place

    async def lag(self, tp: TopicPartition) -> int:
        """How many offsets the user is behind. A partition that is not fetched has no news: its leader is asked."""
        state = self.positions.states[self.check_assigned(tp)]
        if state.lag is not None and not state.paused and not state.is_stopped:
            return state.lag
        place = await self.position(tp, self.config.request_timeout_ms)
        return max((await self.end_offsets([tp]))[tp] - place, 0)

    # -- ranges --------------------------------------------------------------------------------------------------------

    def raw_fetch(self, span: RawRange) -> RawFetch:
        """A read of its own, which ends with the consumer at the latest."""
        self.check_open()
        checked_partition(span.topic_partition)
        checked_number("from_offset", span.from_offset, 0)
        checked_number("to_offset", span.to_offset, 0)
        return RawFetch(self.cluster, self.config, span, self._raw_fetches, self._threads)

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        info = await self.cluster.topic(checked_topic(topic), self.config.request_timeout_ms)
        self.positions.tell(info)
        return [TopicPartition(topic, p.partition) for p in info.partitions]

    async def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(checked_partitions(partitions), timestamp)
        found = await list_offsets(self.cluster, wanted, self.config.request_timeout_ms)
        return {tp: info.offset for tp, info in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self.offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self.offsets(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampAndOffset | None]:
        times = checked_mapping("times_ms", times_ms, "{TopicPartition('orders', 0): 1700000000000}")
        wanted = {checked_partition(tp): checked_number("time_ms", time_ms, 0) for tp, time_ms in times.items()}
        found = await list_offsets(self.cluster, wanted, self.config.request_timeout_ms)
        return {
            tp: None
            if info.offset == NO_OFFSET
            else TimestampAndOffset(info.timestamp_ms, info.offset, info.leader_epoch)
            for tp, info in found.items()
        }

    async def waiting_for(self) -> tuple[Waiting, ...]:
        """Async to be run on the loop, where the states change."""
        return self.fetcher.waiting_for()

    # -- end -----------------------------------------------------------------------------------------------------------

    def unacked_records(self) -> int:
        """A consumer sends none."""
        return 0

    async def close_forgotten(self) -> None:
        """The end of a consumer that its user dropped."""
        await self.close()

    async def close(self) -> None:
        self.closed = True
        self._on_ready()  # a poll that waits in another thread, or around a signal handler, ends
        self.cluster.begin_close()
        await asyncio.gather(*(fetch.close() for fetch in tuple(self._raw_fetches)))
        await self.fetcher.close()
        await self.cluster.close()

    def metrics(self) -> dict[str, int]:
        """Kafka's names; what is not known yet is left out."""
        states = self.positions.states
        lags = {tp: state.lag for tp, state in states.items()}
        known = {tp: lag for tp, lag in lags.items() if lag is not None}
        fetch = self.fetcher.statistics()
        return {
            "records-consumed-total": self._records,
            "bytes-consumed-total": fetch.bytes_fetched,
            "fetch-total": fetch.requests,
            "assigned-partitions": len(states),
            "paused-partitions": len(self.paused()),
            "buffered-bytes": self.buffer.used_bytes,
            **({"records-lag-max": max(known.values())} if known else {}),
            **{f"{tp}.records-lag": lag for tp, lag in known.items()},
        }

    def statistics(self) -> ConsumerStatistics:
        return ConsumerStatistics(self._records, self._polls, self.buffer.used_bytes, self.fetcher.statistics())
