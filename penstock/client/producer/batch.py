"""A batch of the producer: records of one partition, from the first append to the ack.

It goes open → closed → encoded → done. While open, exactly one thread has it in hand (accumulator.py says how); once
encoded, only the sender's thread touches it; when done, it only answers futures. Its timestamp is the moment it was
opened: a record's create time is exact to `linger_ms`, unless the caller gave one. Not here: where batches wait.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, repeat

from penstock.client import forks
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.sequences import SequencePlace
from penstock.errors import ApiError, PenstockError
from penstock.record.batch import with_producer
from penstock.record.builder import Headers, build_batch
from penstock.record.codecs import Codec
from penstock.record.lone_batch import smallest_batch
from penstock.record.reader import RecordColumns, read_columns
from penstock.threads import Threads
from penstock.types import NO_OFFSET, NO_TIMESTAMP, ProducerIdAndEpoch, RecordMetadata, TopicPartition

_log = logging.getLogger(__name__)

RECORD_OVERHEAD_BYTES = 16
"""An upper bound of the bytes that the varints around a value below 1 MiB take, without key and headers."""

KEYED_OVERHEAD_BYTES = RECORD_OVERHEAD_BYTES + 4
"""An upper bound of the bytes that the varints around a key and a value take, both below 1 MiB, without headers."""


class ProducerBatch:
    """Columns of records while open; bytes once encoded; an answer when done."""

    __slots__ = (
        "_callbacks",
        "append",
        "attempts",
        "base_offset",
        "created_ms",
        "done",
        "encoded",
        "error",
        "granted_bytes",
        "halves",
        "headers",
        "keys",
        "last_error",
        "log_append_time_ms",
        "made_in",
        "next_future",
        "place",
        "record_count",
        "refused",
        "request",
        "room",
        "sent_ms",
        "server_error",
        "stamped",
        "threads",
        "timestamp_ms",
        "timestamps_ms",
        "topic_partition",
        "unknown_attempts",
        "values",
    )

    def __init__(self, topic_partition: TopicPartition, timestamp_ms: int, created_ms: int, threads: Threads) -> None:
        self.topic_partition = topic_partition
        self.timestamp_ms = timestamp_ms
        self.created_ms = created_ms
        self.threads = threads  # for callers that wait for the batch
        self.made_in = forks.generation()
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.headers: list[Headers] | None = None
        self.timestamps_ms: list[int] | None = None
        self.room = 0  # bytes that may still be appended within the memory granted
        self.granted_bytes = 0
        self.record_count = 0  # set when closed
        self.encoded: bytes | None = None
        self.attempts = 0
        self.request = 0  # which request carries it: the answer to any other tells nothing about it. 0: none does
        self.sent_ms = 0
        self.place: SequencePlace | None = None  # once an idempotent producer has sent it
        self.stamped: tuple[ProducerIdAndEpoch, int] | None = None  # what `encoded` has
        self.last_error: PenstockError | None = None
        self.server_error: ApiError | None = None  # the last one that a broker told
        self.unknown_attempts = 0  # that ended with their outcome unknown: each may have written the records
        self.halves: tuple[ProducerBatch, ...] = ()  # what it was split into; one, of the records that were not refused
        self.refused: dict[int, PenstockError] = {}  # records that failed by themselves, by their place; ascending
        self.done = False
        self.error: PenstockError | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self._callbacks: list[Callable[[], object]] = []
        self.append = self.values.append
        self.next_future = self._futures_from(0)

    def _futures_from(self, index: int) -> Callable[[], RecordFuture]:
        # `map` and `zip` make the pairs (batch, 0), (batch, 1), … in C: a third of the cost of a constructor.
        return map(tuple.__new__, repeat(RecordFuture), zip(repeat(self), count(index))).__next__

    @property
    def used_bytes(self) -> int:
        """An upper bound of what the open batch will take when encoded without compression."""
        return self.granted_bytes - self.room

    def possible_duplicates(self, *, is_acked: bool) -> int:
        """How often the log may hold the batch beyond its first time, now that it is acked or has failed."""
        if self.place is None:
            return max(self.unknown_attempts + is_acked - 1, 0)
        return max(self.place.doubts + (is_acked or self.place.may_be_written) - 1, 0)

    @property
    def state(self) -> str:
        """One word for people."""
        if self.done:
            return "failed" if self.error is not None else "acked"
        return "open" if self.record_count == 0 else "waiting"

    def append_full(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int | None
    ) -> RecordFuture:
        """Appends a record that has more than a value; the columns that were not needed so far are filled up."""
        before = len(self.values)
        if key is not None and self.keys is None:
            self.keys = [None] * before
        if headers and self.headers is None:
            self.headers = [()] * before
        if timestamp_ms is not None and self.timestamps_ms is None:
            self.timestamps_ms = [self.timestamp_ms] * before
        if self.keys is not None:
            self.keys.extend(repeat(None, before - len(self.keys)))
            self.keys.append(key)
        if self.headers is not None:
            self.headers.extend(repeat((), before - len(self.headers)))
            self.headers.append(headers)
        if self.timestamps_ms is not None:
            self.timestamps_ms.extend(repeat(self.timestamp_ms, before - len(self.timestamps_ms)))
            self.timestamps_ms.append(self.timestamp_ms if timestamp_ms is None else timestamp_ms)
        self.append(value)
        return self.next_future()

    def mend(self) -> None:
        """Mends the columns after an interrupted append: none is longer than the values, and the next future belongs to
        the next value."""
        total = len(self.values)
        for column in (self.keys, self.headers, self.timestamps_ms):
            if column is not None:
                del column[total:]
        self.next_future = self._futures_from(total)

    def close(self) -> None:
        """No record joins any more; columns are made as long as the values."""
        total = self.record_count = len(self.values)
        if self.keys is not None:
            self.keys.extend(repeat(None, total - len(self.keys)))
        if self.headers is not None:
            self.headers.extend(repeat((), total - len(self.headers)))
        if self.timestamps_ms is not None:
            self.timestamps_ms.extend(repeat(self.timestamp_ms, total - len(self.timestamps_ms)))

    def encode(self, codec: Codec) -> None:
        """Makes the record batch, once, and lets go of the columns."""
        times_ms = self.timestamp_ms if self.timestamps_ms is None else self.timestamps_ms
        build = partial(build_batch, self.values, keys=self.keys, headers=self.headers, timestamps_ms=times_ms)
        self.encoded = smallest_batch(build, codec, len(self.values))
        self._release_columns()

    def _release_columns(self) -> None:
        self.values, self.keys, self.headers = [], None, None
        del self.append, self.next_future

    def set_encoded(self, encoded: bytes, record_count: int) -> None:
        """Sets the bytes of a batch that was built in bulk, and never open."""
        self.encoded, self.record_count = encoded, record_count
        self._release_columns()

    def stamp(self, identity: ProducerIdAndEpoch, sequence: int, *, is_transactional: bool) -> None:
        """Sets producer id, epoch and sequence of the encoded batch, unless it has them from an earlier attempt."""
        if self.encoded is not None and self.stamped != (identity, sequence):
            self.encoded = with_producer(self.encoded, *identity, sequence, is_transactional=is_transactional)
            self.stamped = identity, sequence

    def split(self, codec: Codec) -> tuple[ProducerBatch, ...]:
        """Two halves, because the broker finds this batch too large; it is done when both are (KIP-126)."""
        middle = self.record_count // 2
        return self._parted((range(middle), range(middle, self.record_count)), codec)

    def without(self, refused: Mapping[int, PenstockError], codec: Codec) -> ProducerBatch:
        """The batch of the other records; this one is done when that is (KIP-467)."""
        self.refused = dict(sorted(refused.items()))
        (rest,) = self._parted(([index for index in range(self.record_count) if index not in refused],), codec)
        return rest

    def _parted(self, parts: Sequence[Sequence[int]], codec: Codec) -> tuple[ProducerBatch, ...]:
        columns = read_columns(self.encoded or b"")
        self.halves = tuple(self._part(columns, indexes, codec) for indexes in parts)
        self.halves[0].granted_bytes, self.granted_bytes = self.granted_bytes, 0
        self.encoded = None
        for half in self.halves:
            half.add_callback(self._on_half)
        return self.halves

    def _part(self, columns: RecordColumns, indexes: Sequence[int], codec: Codec) -> ProducerBatch:
        part = ProducerBatch(self.topic_partition, self.timestamp_ms, self.created_ms, self.threads)
        times = [columns.timestamps_ms[index] for index in indexes]
        keys = None if columns.keys is None else [columns.keys[index] for index in indexes]
        headers = None if columns.headers is None else [columns.headers[index] for index in indexes]
        values = [columns.values[index] for index in indexes]
        part.set_encoded(build_batch(values, keys=keys, headers=headers, timestamps_ms=times, codec=codec), len(values))
        part.timestamps_ms = times
        part.unknown_attempts = self.unknown_attempts
        return part

    def _on_half(self) -> None:
        if all(half.done for half in self.halves):
            errors = (*self.refused.values(), *(half.error for half in self.halves))
            self.error = next((error for error in errors if error is not None), None)
            self._end()

    def parts(self) -> Iterator[ProducerBatch]:
        """Batches of the log: itself, or what it was split into; between two of these another producer's may stand."""
        if not self.halves:
            yield self
        for half in self.halves:
            yield from half.parts()

    def error_of(self, index: int) -> PenstockError | None:
        """The error of one record: the halves of a split batch may fare differently, and a record may be refused."""
        if index in self.refused:
            return self.refused[index]
        if not self.halves:
            return self.error
        half, place = self._place(index)
        return half.error_of(place)

    def _place(self, index: int) -> tuple[ProducerBatch, int]:
        """The half that a record is in, and its index there. The record was not refused."""
        index -= bisect_left(tuple(self.refused), index)
        first = self.halves[0]
        return (first, index) if index < first.record_count else (self.halves[1], index - first.record_count)

    def finish(self, base_offset: int, log_append_time_ms: int) -> None:
        """The records are acked."""
        self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
        self._end()

    def fail(self, error: PenstockError) -> None:
        """The records will not be tried any more."""
        self.error = error
        self._end()

    def _end(self) -> None:
        self.done = True  # BEFORE the callbacks: add_callback looks at it after it has queued
        self.encoded = None
        self._run_callbacks()

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Calls back once when done; at once when it is. Without a lock: every callback is popped exactly once."""
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        while True:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback()
            except (
                Exception,
                SystemExit,
                CancelledError,
            ):  # the answers to other batches, and whoever waits for this one, come next
                _log.exception("a callback of %r raised", self)

    def metadata(self, index: int) -> RecordMetadata:
        """The place of the record at `index` in the log; offset -1 if acks=0 never told it."""
        if self.halves:
            half, place = self._place(index)
            return half.metadata(place)
        timestamp_ms = self.log_append_time_ms
        if timestamp_ms == NO_TIMESTAMP:
            timestamp_ms = self.timestamp_ms if self.timestamps_ms is None else self.timestamps_ms[index]
        offset = self.base_offset + index if self.base_offset != NO_OFFSET else NO_OFFSET
        topic, partition = self.topic_partition
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.state}, records={self.record_count or len(self.values)})"
