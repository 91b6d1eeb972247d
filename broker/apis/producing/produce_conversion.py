"""Converts produced batches in threads, before their request is queued for the handlers: compresses them with their
topic's codec, checks that every record can be read, and of a compacted topic has a key, sets wrong largest timestamps,
and names the records whose times are refused.

Compressing a large batch takes milliseconds, and on the event loop every client would wait for it. In a thread, only
the stream that sent the batch waits: its listener reads no further request meanwhile, so its requests stay in order. A
batch that already has the codec, which is the usual case, costs a short look here, and no thread.

A topic's owner chooses its codec and level, and a batch may take seconds. So a party has half of the threads, one at
least, and parties take turns.

Correctness does not depend on this module. The append itself converts a batch that was not converted here (because the
leader or the configuration changed meanwhile). The produce API reports a batch that is refused here, after its own
checks.

The conversion and its limits for one append are in storage/append/recompression.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from broker.load.party_turns import PartyTurns
from broker.network.parties import party_of
from broker.network.request_channel import Request
from broker.replication.partition import Partition
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import ApiError, UnknownServerError
from penstock.lazy_dataclass import dataclass
from penstock.messages.produce import ProduceRequest
from penstock.record.batch import Buffer
from penstock.types import TopicPartition
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.append.key_validation import LOOP_BYTES_MAX, KeyedRecords
from storage.append.recompression import is_due, prepared, seen_at_once
from storage.append.record_validation import ReadableRecords
from storage.append.time_validation import has_bad_times
from storage.log_config import LogConfig

_log = logging.getLogger(__name__)

LOOK_NS = 1_000_000
"""The time that the event loop looks at the records of one request, whatever its partitions; then a thread does."""
THREADS_MAX = 8
"""Each may hold a few times MAX_UNPACKED_BYTES."""


def threads_for(processors: int) -> int:
    """How many threads convert on a machine with that number of processors."""
    return min(THREADS_MAX, max(2, processors // 2))


@dataclass(frozen=True, slots=True)
class _Work:
    """The records of one partition of a request; `index` is the partition's place in the request."""

    index: int
    records: Buffer
    config: LogConfig


@dataclass(frozen=True, slots=True)
class ProduceConversionStatistics:
    """Counts since the node's start."""

    requests: int
    bytes_before: int
    bytes_after: int
    refused: int


class ProduceConverter:
    """Converts the batches of all produce streams. There is one per node."""

    def __init__(
        self,
        find: Callable[[TopicPartition], Partition | None],
        clock: Clock,
        executor: Executor,
        threads: int,
        request_unpacked_bytes_max: int,
        may_write: Callable[[Request, str], bool] | None = None,
    ) -> None:
        """`executor` is this converter's own, and has `threads` threads. `may_write` says if the caller of a request
        may write to a topic; None without an authorizer. No time is spent on the records of a caller that may not: the
        produce API refuses them.

        `request_unpacked_bytes_max`: the limit of all batches of a request together, uncompressed."""
        self._find = find
        self._clock = clock
        self._request_unpacked_bytes_max = request_unpacked_bytes_max
        self._executor = executor
        self._turns = PartyTurns(max(1, threads // 2), threads)
        self._may_write = may_write
        self._requests = self._bytes_before = self._bytes_after = self._refused = 0

    def begin(self, request: Request) -> Awaitable[None] | None:
        """An awaitable that ends when the request may be queued; None if nothing has to be converted. What is refused
        is found in `request.prepared`, by the partition's place in the request."""
        body = request.body
        if not isinstance(body, ProduceRequest):
            return None
        work, now_ms, until_ns, keyed_bytes = [], self._clock.wall_ms(), self._clock.now_ns() + LOOK_NS, 0
        for index, (key, topic_id, records) in enumerate(body.partitions):
            config = self._config_of(key, topic_id)
            if config is None or (self._may_write is not None and not self._may_write(request, key.topic)):
                continue
            seen = seen_at_once(records, config) if self._clock.now_ns() < until_ns else None
            if seen is not None:
                records = seen
                body.partitions[index] = body.partitions[index]._replace(records=records)
            keyed_bytes += len(records) if config.is_compacted else 0
            has_many_keys = config.is_compacted and keyed_bytes > LOOP_BYTES_MAX
            if has_many_keys or is_due(records, config) or has_bad_times(records, config, now_ms):
                work.append(_Work(index, records, config))
        return self._convert(request, body, work) if work else None

    def _config_of(self, key: TopicPartition, topic_id: str) -> LogConfig | None:
        partition = self._find(key)
        if partition is None or partition.topic_id != topic_id or partition.leading is None:
            return None
        return partition.log.config

    async def _convert(self, request: Request, body: ProduceRequest, work: list[_Work]) -> None:
        loop = asyncio.get_running_loop()
        self._requests += 1
        party = party_of(request.caller)
        await self._turns.turn(party)
        try:
            at_work = loop.run_in_executor(self._executor, self._run, work, self._clock.wall_ms())
        except BaseException:
            self._turns.done(party)
            raise
        at_work.add_done_callback(lambda _: self._turns.done(party))  # a thread goes on when its stream is given up
        outcomes = await asyncio.shield(at_work)
        refused: dict[int, ApiError] = {}
        request.prepared = refused
        for one, outcome in zip(work, outcomes, strict=True):
            if isinstance(outcome, ApiError):
                self._refused += 1
                refused[one.index] = outcome
            else:
                self._bytes_before += len(one.records)
                self._bytes_after += len(outcome)
                body.partitions[one.index] = body.partitions[one.index]._replace(records=outcome)

    def _run(self, work: list[_Work], now_ms: int) -> list[bytes | ApiError]:
        """Works in a thread: one outcome for each piece of work, in the same order."""
        outcomes: list[bytes | ApiError] = []
        left_bytes = self._request_unpacked_bytes_max
        for one in work:
            try:
                left = min(left_bytes, MAX_UNPACKED_BYTES)
                made = prepared(one.records, one.config, now_ms, left, may_take_long=True)
                left_bytes -= made.unpacked_bytes
                outcomes.append(_marked(made.records, one.config))
            except ApiError as error:
                outcomes.append(without_frames(error))
            except Exception as error:
                _log.exception("converting %d bytes to %s", len(one.records), one.config.compression_type)
                outcomes.append(UnknownServerError(f"Produce: {type(error).__name__}: {error}"))
        return outcomes

    def close(self) -> None:
        """Called when no stream is open any more, so nobody waits for a conversion that still runs."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def statistics(self) -> ProduceConversionStatistics:
        return ProduceConversionStatistics(self._requests, self._bytes_before, self._bytes_after, self._refused)

    def __repr__(self) -> str:
        return f"ProduceConverter({self._requests} requests, {self._bytes_before} bytes became {self._bytes_after})"


def _marked(records: Buffer, config: LogConfig) -> bytes:
    """Records that were looked at here carry a mark, so the append does not look at them again."""
    if config.is_compacted:
        return KeyedRecords(records)
    return ReadableRecords(records) if config.validates_records else bytes(records)
