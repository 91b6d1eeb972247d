"""Fetches a bounded range of one partition as raw record buffers: for Spark, which decodes them itself.

The same positions, fetcher and reader as a consumer's, for one partition and up to one offset: leader changes, broken
and ended streams, and a topic made anew are met there. An offset out of range is an error that tells both bounds, never
a jump, because a range is a promise. A buffer may begin below the wanted offset and end above the range, because
batches are whole and the cleaner may stretch them between two fetches: decode each from its own `from_offset`, to
before the range's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.fetching.effects import Deliver
from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.raw.raw_buffer import RawBuffer, RawRange
from penstock.client.consumer.reader import Reader
from penstock.client.options.config import ConsumerConfig
from penstock.errors import ClientClosedError, TimedOutError
from penstock.threads import Threads

PIECES_AHEAD = 2
"""How many answers may wait for the caller: enough to keep the broker busy, little memory for each of many ranges."""


class RawFetch:
    """One range of one partition, read once. It is in `under_way` from its beginning to its end."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: ConsumerConfig,
        span: RawRange,
        under_way: dict[RawFetch, None],
        threads: Threads,
    ) -> None:
        self._span = span
        self._offset = span.from_offset
        self._time_out_ms = config.request_timeout_ms
        self._under_way = under_way
        self._positions = Positions(
            "none",
            cluster.backoff,
            reads_committed=config.reads_committed,
            follower_ms_max=config.metadata_max_age_ms,
        )
        size_bytes = min(config.fetch_max_bytes, PIECES_AHEAD * config.max_partition_fetch_bytes)
        buffer = FetchBuffer(size_bytes, threads, self._on_room)
        self._reader = Reader(self._positions, buffer)
        self._ready = asyncio.Event()
        self._cache = cluster.cache
        self._fetcher = Fetcher(cluster, self._positions, buffer, config, self._ready.set)
        self._is_begun = False
        self._closed = False

    def _on_room(self) -> None:
        self._fetcher.touch()

    async def buffers(self) -> AsyncGenerator[RawBuffer]:
        """Every buffer in order; ends at the range's end."""
        try:
            while (found := await self.next_buffer()) is not None:
                yield found
        finally:
            await self.close()

    async def next_buffer(self) -> RawBuffer | None:
        """The next buffer, or None at the range's end; the caller closes when it wants no more."""
        span = self._span
        if not self._is_begun:
            self._is_begun = True
            self._under_way[self] = None
            self._cache.note_offset(*span.seen)
            self._cache.note_epoch(span.topic_partition, span.topic_id, span.leader_epoch)
            await self._fetcher.assign_range(span)
        return await self._wait_buffer() if self._offset < span.to_offset else None

    async def _wait_buffer(self) -> RawBuffer:
        """The next buffer. Only the time that the caller waits counts, for every buffer anew."""
        try:
            async with asyncio.timeout(self._time_out_ms / 1000):
                while (piece := self._take()) is None:
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            raise TimedOutError(
                f"{self._span.topic_partition}: no records from offset {self._offset} on within {self._time_out_ms} ms"
                f" (request_timeout_ms); the last error: {self._fetcher.last_error or 'none'}"
            ) from None
        self._offset = piece.next_offset
        return RawBuffer(piece.records, piece.from_offset, piece.next_offset)

    def _take(self) -> Deliver | None:
        """The next piece; None while none is there. Raises the range's error, or ClientClosedError once closed."""
        if self._closed:
            raise ClientClosedError("the consumer was closed while a range was read")
        with self._reader.turn():
            piece = self._reader.next_piece()
            if piece is not None:
                self._reader.give(piece)
        if piece is None:
            self._reader.raise_new()
        return piece

    async def close(self) -> None:
        """Ends fetching, and the wait of a caller that reads. Idempotent."""
        self._closed = True
        self._ready.set()
        self._under_way.pop(self, None)
        await self._fetcher.close()

    def __repr__(self) -> str:
        tp, low, high, *_ = self._span
        return f"RawFetch({tp}, {low} to {high})"
