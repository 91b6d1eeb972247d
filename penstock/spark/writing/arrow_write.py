"""Sends the Arrow batches of one Spark task: routes rows by topic and partition, keeps count of what is acked.

Rows without headers and times go in bulk, as slices of Arrow arrays; an Arrow batch in which any row has one of them
goes row by row, all of it, so that rows keep their order. Whether a topic has a partition is the producer's to say: it
asks the cluster for one that it does not know. An error says which rows it is about. Runs in executors, with pyarrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidRecordError, MessageTooLargeError, PenstockError, RecordListTooLargeError
from penstock.lazy_dataclass import dataclass
from penstock.record.arrow_encode import as_binary
from penstock.spark.plain_errors import add_context
from penstock.spark.schema import GIVEN_BY_LOG

PENDING_MAX = 64
"""Bulk sends whose acks are awaited at a time; the producer's own buffer_memory bounds their bytes."""
MICROS_PER_MS = 1000
TOO_LARGE = (MessageTooLargeError, RecordListTooLargeError)


class _Pending(NamedTuple):
    """A send whose ack is awaited: `rows` rows, between the first and the last row of the task that it has."""

    topic: str
    future: Any
    rows: int
    first: int
    last: int
    largest: int
    """The row with the most bytes: the one to look at if a broker refuses the batch as too large."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one Arrow batch that go the same way; `places` are theirs in the batch, None for all of it."""

    batch: Any
    before: int
    """Rows of the task before the Arrow batch."""
    places: Any | None = None

    def number(self, index: int) -> int:
        """The number of a row in its task."""
        return self.before + (index if self.places is None else int(self.places[index].as_py()))

    def only(self, mask: Any) -> _Rows:
        chosen = pc.indices_nonzero(pc.fill_null(mask, False))
        places = chosen if self.places is None else self.places.take(chosen)
        return _Rows(self.batch.take(chosen), self.before, places)

    def column(self, name: str) -> Any | None:
        """The column of this name; None without such a column, or if all of it is null."""
        at = self.batch.schema.get_field_index(name)
        column = self.batch.column(at) if at >= 0 else None
        return None if column is None or column.null_count == len(column) else column

    def values(self) -> Any:
        return as_binary(self.batch.column("value"))

    @property
    def last(self) -> int:
        return int(self.batch.num_rows) - 1


class TaskWriter:
    """One task's writing; not thread-safe."""

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._pending: deque[_Pending] = deque()
        self._taken = 0
        self._acked = 0

    def write(self, batch: Any) -> None:
        """Queues every row of an Arrow batch; blocks while the producer's buffer is full."""
        whole = _Rows(batch, self._taken)
        _check_given_by_log(whole)
        for topic, partition, rows in self._routes(whole):
            if rows.batch.num_rows:
                self._send(topic, partition, rows)
        self._taken += batch.num_rows
        while self._pending and (len(self._pending) > PENDING_MAX or self._pending[0].future.done()):
            self._take_ack()

    def finish(self) -> int:
        """Waits until everything is acked; returns the number of rows."""
        while self._pending:
            self._take_ack()
        if self._acked != self._taken:
            raise PenstockError(f"{self._taken} rows were sent, but {self._acked} acked; the write is not complete")
        return self._acked

    def _take_ack(self) -> None:
        pending = self._pending.popleft()
        with self._rows_in_errors(pending.topic, pending.first, pending.last, pending.largest):
            pending.future.result()
        self._acked += pending.rows

    def _routes(self, whole: _Rows) -> Iterator[tuple[str, int | None, _Rows]]:
        """The rows by topic and partition; the whole batch at once in the plain case."""
        for topic, rows in self._by_topic(whole):
            partitions = rows.column("partition")
            if partitions is None:
                yield topic, None, rows
                continue
            for partition in pc.unique(partitions).to_pylist():
                mask = pc.is_null(partitions) if partition is None else pc.equal(partitions, partition)
                yield topic, partition, rows.only(mask)

    def _by_topic(self, whole: _Rows) -> Iterator[tuple[str, _Rows]]:
        if self._topic:
            yield self._topic, whole
            return
        topics = whole.batch.column("topic")
        if topics.null_count:
            raise InvalidRecordError(
                f"row {whole.number(topics.is_null().index(True).as_py())} of this Spark task has a null topic; fill "
                "the column 'topic' or set the option 'topic'"
            )
        distinct = pc.unique(topics).to_pylist()
        for topic in distinct:
            yield topic, whole if len(distinct) == 1 else whole.only(pc.equal(topics, topic))

    def _send(self, topic: str, partition: int | None, rows: _Rows) -> None:
        if rows.column("headers") is not None or rows.column("timestamp") is not None:
            self._send_singly(topic, partition, rows)
            return
        keys = rows.column("key")
        keys = None if keys is None else as_binary(keys)
        values = rows.values()
        first, last, largest = rows.number(0), rows.number(rows.last), rows.number(_largest(values, keys))
        with self._rows_in_errors(topic, first, last, largest):
            future = self._producer.send_many(topic, values, keys=keys, partition=partition)
        self._pending.append(_Pending(topic, future, rows.batch.num_rows, first, last, largest))

    def _send_singly(self, topic: str, partition: int | None, rows: _Rows) -> None:
        values, keys, headers = rows.values(), rows.column("key"), rows.column("headers")
        nothing = [None] * len(values)
        columns = zip(
            values.to_pylist(),
            nothing if keys is None else as_binary(keys).to_pylist(),
            nothing if headers is None else headers.to_pylist(),
            _times_ms(rows) or nothing,
            strict=True,
        )
        index = 0
        try:
            for index, (value, key, pairs, timestamp_ms) in enumerate(columns):
                own = [(pair["key"], pair["value"]) for pair in pairs or ()] or None
                if own and any(name is None for name, _ in own):
                    raise InvalidRecordError("a header has no key")
                future = self._producer.send(
                    topic, value=value, key=key, headers=own, partition=partition, timestamp_ms=timestamp_ms
                )
                number = rows.number(index)
                self._pending.append(_Pending(topic, future, 1, number, number, number))
        except PenstockError as error:
            self._tell(error, topic, rows.number(index), rows.number(index))
            raise

    @contextmanager
    def _rows_in_errors(self, topic: str, first: int, last: int, largest: int) -> Iterator[None]:
        """Adds to an error which rows it is about."""
        try:
            yield
        except PenstockError as error:
            self._tell(error, topic, first, last)
            if first != last and _is_too_large(error):
                add_context(error, f"the largest is row {largest}")
            raise

    def _tell(self, error: PenstockError, topic: str, first: int, last: int) -> None:
        rows = f"row {first}" if first == last else f"rows {first} to {last}"
        add_context(error, f"{rows} of this Spark task, for topic {topic!r}; {self._acked} of its rows were acked")

    def __repr__(self) -> str:
        return f"TaskWriter(taken={self._taken}, acked={self._acked}, pending={len(self._pending)})"


def _largest(values: Any, keys: Any | None) -> int:
    sizes = pc.binary_length(values).fill_null(0)
    if keys is not None:
        sizes = pc.add(sizes, pc.binary_length(keys).fill_null(0))
    return int(sizes.index(pc.max(sizes)).as_py())


def _is_too_large(error: BaseException | None) -> bool:
    """True for such an error by itself, and for one that has ended a writer's transaction."""
    return isinstance(error, TOO_LARGE) or (error is not None and isinstance(error.__cause__, TOO_LARGE))


def _check_given_by_log(rows: _Rows) -> None:
    for name in GIVEN_BY_LOG:
        column = rows.column(name)
        if column is not None:
            raise InvalidRecordError(
                f"row {rows.number(column.is_valid().index(True).as_py())} of this Spark task has a value in the "
                f"column {name!r}, which the log itself gives; select only key, value, headers, topic, partition and "
                "timestamp"
            )


def _times_ms(rows: _Rows) -> list[int | None] | None:
    """Records have whole milliseconds: what a timestamp has beyond is cut off."""
    column = rows.column("timestamp")
    if column is None:
        return None
    micros = column.cast(pa.int64())
    if (least := pc.min(micros).as_py()) < 0:
        number = rows.number(micros.index(least).as_py())
        raise InvalidRecordError(
            f"row {number} of this Spark task has a timestamp before 1970, which a record cannot have; leave it null "
            "for the time of writing"
        )
    found: list[int | None] = pc.divide(micros, MICROS_PER_MS).to_pylist()
    return found
