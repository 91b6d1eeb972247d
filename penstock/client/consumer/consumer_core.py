"""The consumer without its face: its parts, how records are taken, and its end.

Taking from the buffer and decoding happen in the caller's thread, so that the loop keeps fetching meanwhile;
everything that changes what is fetched runs on the loop. One thread at a time may use a consumer, as in Kafka. What is
handed over, and when an error is raised, is decided in reader.py. Not here: the other calls (consumer_calls.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.client.cluster.arguments import checked_number, checked_partition
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.consumer_metrics import ConsumerStatistics
from penstock.client.consumer.consumer_record import ConsumerRecord, make_records
from penstock.client.consumer.decode import piece_bytes_max
from penstock.client.consumer.fetching.effects import Deliver
from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.groups.joined_group import JoinedGroup
from penstock.client.consumer.groups.subscription import Mode
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.client.consumer.raw.raw_fetch import RawFetch
from penstock.client.consumer.reader import Reader
from penstock.client.environment import ClientEnvironment
from penstock.client.metrics.recent_totals import RecentTotals
from penstock.client.options.config import ConsumerConfig, consumer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.wire.large_buffers import reuse_large_buffers
from penstock.errors import ClientClosedError, OffsetOutOfRangeError, SubscriptionError
from penstock.ids import RandomIds
from penstock.lazy_dataclass import dataclass
from penstock.record.reader import RecordColumns, read_columns
from penstock.types import NO_OFFSET

POLL_BYTES = 8 * 1024 * 1024
"""One poll gives no more pieces after this many bytes, without compression. A poll keeps what it gave until it ends, in
case it fails. With large records more pieces would ask for new memory instead of using the old again."""

ITERATION_POLL_MS = 1_000
"""A loop over the records of a consumer polls again after this time without a record."""


@dataclass(slots=True)
class _Leftover:
    """The records that a poll has decoded and not given: those of `piece` from row `at` on."""

    piece: Deliver
    records: list[ConsumerRecord]
    at: int
    unpacked_bytes: int


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
        self.cluster = ClusterClient(self.bootstrap, self.config, environment)
        self.positions = Positions(
            self.config.auto_offset_reset,
            self.cluster.backoff,
            reads_committed=self.config.reads_committed,
            follower_ms_max=self.config.metadata_max_age_ms,
        )
        self.cluster.tracked.add_user(self)
        self.buffer = FetchBuffer(self.config.fetch_max_bytes, environment.threads, self.on_room)
        self.reader = Reader(self.positions, self.buffer, keeps_places=self.config.group_id is not None)
        self.fetcher = Fetcher(self.cluster, self.positions, self.buffer, self.config, on_ready)
        member_id = RandomIds(environment.random).new_id()
        self.group = (
            JoinedGroup(
                cluster=self.cluster,
                config=self.config,
                positions=self.positions,
                fetcher=self.fetcher,
                on_ready=on_ready,
                member_id=member_id,
            )
            if self.config.group_id is not None
            else None
        )
        self.closing = False  # the user's thread gives up what the group gave; polls of others end
        self.closed = False
        self._on_ready = on_ready
        self._raw_fetches: dict[RawFetch, None] = {}
        self._leftover: _Leftover | None = None
        self._counts = {"records": 0, "polls": 0}
        self._recent = RecentTotals()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the network half on `loop`."""
        reuse_large_buffers()
        self._loop = loop

    def maybe_begin_anew(self) -> None:
        """Begins what the program has cancelled among all tasks of its loop."""
        self.fetcher.maybe_begin_anew()
        if self.group is not None:
            self.group.maybe_begin_anew()

    def call_soon(self, work: Callable[..., object], *args: object) -> None:
        """Does the work on the loop, soon. In any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(work, *args)

    def on_room(self) -> None:
        """There is room to fetch again. In any thread."""
        self.call_soon(self.fetcher.touch)

    # -- TopicUser -----------------------------------------------------------------------------------------------------

    def topics_in_use(self, since_ms: int) -> set[str]:
        """Topics of assigned partitions."""
        return {tp.topic for tp in self.positions.states}

    def forget_topic(self, topic: str) -> None:
        """Nothing is kept of a topic without an assigned partition."""

    # -- taking: the caller's thread -----------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed or self.closing:
            raise ClientClosedError("this consumer is closed; make a new one")

    def check_poll(self) -> None:
        """Raises where polling can never return anything."""
        self.check_open()
        self._check_subscribed()
        for state in self.positions.states.values():
            if state.position == NO_OFFSET and state.reset_timestamp is None and not state.halted:
                raise OffsetOutOfRangeError(
                    f"{state.topic_partition} has no position and auto_offset_reset is 'none': seek first"
                )

    def check_iteration(self) -> None:
        """Raises where a loop over the records would never get one."""
        self.check_open()
        self._check_subscribed()
        if not self.positions.states and self.group is None:
            raise ValueError("nothing is assigned, so no record comes; assign(partitions_for(topic)) first")

    def _check_subscribed(self) -> None:
        """Raises for a consumer of a group that is not to be assigned anything."""
        if self.group is not None and self.group.mode is Mode.NONE:
            raise SubscriptionError(
                f"this consumer of group {self.config.group_id!r} reads nothing; subscribe(['orders']) or assign"
                " partitions before it polls"
            )

    def take_records(self, max_records: int | None) -> list[ConsumerRecord]:
        """The records that are ready, at most `max_records`; an empty list without any."""
        limit = self.config.max_poll_records if max_records is None else checked_number("max_records", max_records, 0)
        taken: list[ConsumerRecord] = []
        size_bytes = 0
        with self.reader.turn():
            while len(taken) < limit and size_bytes < POLL_BYTES:
                piece = self.reader.next_piece()
                if piece is None:
                    break
                part, unpacked_bytes = self._take_rows(piece, limit - len(taken))
                size_bytes += max(len(piece.records), unpacked_bytes)
                if taken:
                    taken += part
                else:
                    taken = part
        if not taken:
            self.reader.raise_new()
        self.count(len(taken))
        return taken

    def look(self) -> None:
        """Remembers the counts for rates, at most twice in a window; once for each piece, and for no record."""
        self._recent.look(self.clock.now_ms(), self._counts)

    def count(self, records: int) -> None:
        """Counts a poll that gave this many records."""
        self._counts["polls"] += 1
        self._counts["records"] += records

    def _take_rows(self, piece: Deliver, count: int) -> tuple[list[ConsumerRecord], int]:
        """Takes at most `count` records of the piece; the others stay decoded for the next poll. The records, and the
        bytes that the piece has unpacked."""
        left, self._leftover = self._leftover, None
        if left is None or left.piece is not piece:
            self.look()
            columns, piece = self.reader.decode(piece, self.read_columns)
            made = make_records(piece.topic_partition, columns, piece.origin)
            left = _Leftover(piece, made, 0, columns.unpacked_bytes)
        records, at = left.records, left.at
        end = min(len(records), at + count)
        if end < len(records):
            rest = self.reader.give_part(piece, records[end].offset)
            self._leftover = _Leftover(rest, records, end, left.unpacked_bytes)
        else:
            self.reader.give(piece)
        return records if at == 0 and end == len(records) else records[at:end], left.unpacked_bytes

    def read_columns(self, records: bytes, from_offset: int) -> RecordColumns:
        most, check_crc = piece_bytes_max(records), self.config.check_crcs
        return read_columns(records, from_offset=from_offset, check_crc=check_crc, max_unpacked_bytes=most)

    # -- ranges --------------------------------------------------------------------------------------------------------

    def raw_fetch(self, span: RawRange) -> RawFetch:
        """A read of its own, which ends with the consumer at the latest."""
        self.check_open()
        checked_partition(span.topic_partition)
        checked_number("from_offset", span.from_offset, 0)
        checked_number("to_offset", span.to_offset, 0)
        return RawFetch(self.cluster, self.config, span, self._raw_fetches, self._threads)

    # -- end -----------------------------------------------------------------------------------------------------------

    def unacked_records(self) -> int:
        """A consumer sends none."""
        return 0

    async def close_forgotten(self) -> None:
        """The end of a consumer that its user dropped."""
        await self.close()

    def begin_close(self) -> None:
        """A poll that waits in another thread, or around a signal handler, ends. In any thread."""
        self.closing = True
        self._on_ready()

    async def close(self) -> None:
        self.closed = True
        self._on_ready()
        if self.group is not None:
            await self.group.close()  # BEFORE the connections end: the coordinator is to be told
        self.cluster.begin_close()
        await asyncio.gather(*(fetch.close() for fetch in tuple(self._raw_fetches)))
        await self.fetcher.close()
        await self.cluster.close()

    def statistics(self) -> ConsumerStatistics:
        group = self.group.statistics() if self.group is not None else None
        counts = self._counts
        growth = self._recent.growth(self.clock.now_ms(), counts)
        return ConsumerStatistics(
            counts["records"],
            counts["polls"],
            self.buffer.used_bytes,
            self.fetcher.statistics(),
            group,
            growth.rate("records"),
            growth.mean("records", "polls"),
        )
