"""Fetches a bounded range of one partition as raw record buffers: for Spark, which decodes them itself.

A stream of its own to the leader, the next request out before a buffer is handed on. A buffer may begin below the
wanted offset and end above the range, because batches are whole: decode it with `from_offset` and `to_offset`. Leader
changes are followed; an offset out of range is an error that tells both bounds, never a jump, because a range is a
promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from penstock.client.by_leader import check_partition
from penstock.client.channel import FetchStream
from penstock.client.cluster import Cluster
from penstock.client.config import ConsumerConfig
from penstock.client.messages import FetchCall, FetchPart, FetchResult
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    LeaderNotAvailableError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TimedOutError,
)
from penstock.record.batch import iter_headers
from penstock.types import NO_EPOCH, TopicPartition


class RawBuffer(NamedTuple):
    """Whole batches that hold the records from `from_offset` to before `next_offset`."""

    records: bytes
    from_offset: int
    next_offset: int


class RawFetch:
    """One range of one partition."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, tp: TopicPartition, bounds: tuple[int, int]) -> None:
        self._cluster = cluster
        self._config = config
        self._tp = tp
        self._from, self._to = bounds
        self._epoch = NO_EPOCH
        self._correlation_id = 0
        self._failures = 0
        self._deadline_ms = 0

    async def buffers(self) -> AsyncIterator[RawBuffer]:
        """Every buffer in order; ends at the range's end."""
        await check_partition(self._cluster, self._tp, self._config.request_timeout_ms)
        self._progress()
        while self._from < self._to:
            stream: FetchStream | None = None
            try:
                stream = await self._open()
                async with asyncio.timeout(None) as limit:
                    async for buffer in self._read(stream, limit):
                        yield buffer
            except ApiError as error:
                if not error.retriable:
                    raise
                await self._wait_retry(error)
            except TimeoutError:
                raise TimedOutError(f"{self._tp}: no records from offset {self._from} on in time") from None
            finally:
                if stream is not None:
                    stream.cancel()

    def _progress(self) -> None:
        self._failures = 0
        self._deadline_ms = self._cluster.clock.now_ms() + self._config.request_timeout_ms

    async def _open(self) -> FetchStream:
        leader = self._cluster.cache.leader(self._tp)
        if leader is None:
            raise LeaderNotAvailableError(f"{self._tp} has no leader now")
        return self._cluster.require_leader_endpoint(leader.node_id).open_fetch()

    async def _read(self, stream: FetchStream, limit: asyncio.Timeout) -> AsyncIterator[RawBuffer]:
        await stream.write(self._call())
        while True:
            left_ms = max(self._deadline_ms - self._cluster.clock.now_ms(), 1)
            limit.reschedule(asyncio.get_running_loop().time() + left_ms / 1000)
            answer = await stream.read()
            if answer.error is not None:
                raise answer.error
            buffer = next((self._take(r) for r in answer.results if (r.topic, r.partition) == self._tp), None)
            if self._from < self._to:
                await stream.write(self._call())
            if buffer is not None:
                limit.reschedule(None)  # the reader may take its time
                yield buffer
                self._progress()
            if self._from >= self._to:
                return

    def _call(self) -> FetchCall:
        leader = self._cluster.cache.leader(self._tp)
        epoch = leader.epoch if leader is not None else NO_EPOCH
        config = self._config
        part = FetchPart(*self._tp, self._from, epoch, self._epoch, config.max_partition_fetch_bytes)
        self._correlation_id += 1
        return FetchCall(
            self._correlation_id, config.fetch_max_wait_ms, 1, config.fetch_max_bytes, (part,), (), config.client_id
        )

    def _take(self, result: FetchResult) -> RawBuffer | None:
        if result.error is not None:
            raise self._refused(result.error)
        if result.diverging_epoch is not None:
            divergent = max(min(result.diverging_epoch.end_offset, self._from), 0)
            raise LogTruncationError(
                f"{self._tp}: the log was truncated below offset {self._from}; it diverges at {divergent} or before",
                topic=self._tp.topic,
                partition=self._tp.partition,
                position=self._from,
                divergent_offset=divergent,
            )
        if not result.records:
            return None
        last = None
        for _, header in iter_headers(result.records):
            last = header
        if last is None or last.next_offset <= self._from:
            raise CorruptMessageError(f"{self._tp}: the broker answered without a whole new batch at {self._from}")
        buffer = RawBuffer(result.records, self._from, last.next_offset)
        self._from, self._epoch = last.next_offset, last.leader_epoch
        return buffer

    def _refused(self, error: ApiError) -> ApiError:
        if error.leader is not None:
            self._cluster.cache.apply_hint(self._tp, error.leader)
        if not isinstance(error, OffsetOutOfRangeError):
            return error
        low, high = error.log_start_offset, error.log_end_offset
        text = f"{self._tp}: offset {self._from} is out of range; readable are {low} to {high}"
        return OffsetOutOfRangeError(text, log_start_offset=low, log_end_offset=high)

    async def _wait_retry(self, error: ApiError) -> None:
        self._failures += 1
        wait_ms = self._cluster.backoff.wait_ms(self._failures)
        if self._cluster.clock.now_ms() + wait_ms >= self._deadline_ms:
            raise TimedOutError(f"{self._tp}: no records from offset {self._from} on in time; the last error: {error}")
        if error.leader is None:
            self._cluster.refresh_soon()
        await asyncio.sleep(max(wait_ms, 1) / 1000)

    def __repr__(self) -> str:
        return f"RawFetch({self._tp}, {self._from} to {self._to})"
