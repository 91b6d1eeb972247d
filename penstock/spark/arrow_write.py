"""Sends the Arrow batches of one Spark task: routes rows by topic and partition, keeps count of what is acked.

Rows without headers go in bulk, as slices of Arrow arrays; an Arrow batch in which any row has headers goes row by row,
all of it, so that rows keep their order. Runs in executors; imports pyarrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from penstock.errors import InvalidRecordError, PenstockError
from penstock.record.arrow_encode import as_binary
from penstock.spark.schema import GIVEN_BY_LOG
from penstock.types import TopicPartition

PENDING_MAX = 64
"""Bulk sends whose acks are awaited at a time; the producer's own buffer_memory bounds their bytes."""


class TaskWriter:
    """One task's writing; not thread-safe."""

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._pending: deque[tuple[str, Any, int]] = deque()
        self._partition_counts: dict[str, int] = {}
        self._taken = 0
        self._acked = 0

    def write(self, batch: Any) -> None:
        """Queues every row of an Arrow batch; blocks while the producer's buffer is full."""
        self._check_given_by_log(batch)
        for topic, partition, part in self._routes(batch):
            self._check_partition(topic, partition)
            self._send(topic, partition, part)
        self._taken += batch.num_rows
        while self._pending and (len(self._pending) > PENDING_MAX or self._pending[0][1].done()):
            self._take_ack()

    def finish(self) -> int:
        """Waits until everything is acked; returns the number of rows."""
        while self._pending:
            self._take_ack()
        if self._acked != self._taken:
            raise PenstockError(f"{self._taken} rows were sent, but {self._acked} acked; the write is not complete")
        return self._acked

    def _take_ack(self) -> None:
        topic, future, count = self._pending.popleft()
        try:
            future.result()
        except PenstockError as error:
            error.add_note(f"while writing to topic {topic!r}; {self._acked} rows of this Spark task were acked before")
            raise
        self._acked += count

    def _routes(self, batch: Any) -> Iterator[tuple[str, int | None, Any]]:
        """The rows by topic and partition; the whole batch at once in the plain case."""
        for topic, rows in self._by_topic(batch):
            partitions = _column(rows, "partition")
            if partitions is None or partitions.null_count == len(partitions):
                yield topic, None, rows
                continue
            for partition in pc.unique(partitions).to_pylist():
                mask = pc.is_null(partitions) if partition is None else pc.equal(partitions, partition)
                yield topic, partition, rows.filter(pc.fill_null(mask, False))

    def _by_topic(self, batch: Any) -> Iterator[tuple[str, Any]]:
        if self._topic:
            yield self._topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            row = self._taken + topics.is_null().index(True).as_py()
            raise InvalidRecordError(
                f"row {row} of this Spark task has a null topic; fill the column 'topic' or set the option 'topic'"
            )
        distinct = pc.unique(topics).to_pylist()
        for topic in distinct:
            yield topic, batch if len(distinct) == 1 else batch.filter(pc.equal(topics, topic))

    def _check_given_by_log(self, batch: Any) -> None:
        for name in GIVEN_BY_LOG:
            column = _column(batch, name)
            if column is not None and column.null_count < len(column):
                row = self._taken + column.is_valid().index(True).as_py()
                raise InvalidRecordError(
                    f"row {row} of this Spark task has a value in the column {name!r}, which the log itself gives; "
                    "select only key, value, headers, topic and partition"
                )

    def _check_partition(self, topic: str, partition: int | None) -> None:
        if partition is None:
            return
        if topic not in self._partition_counts:
            self._partition_counts[topic] = len(self._producer.partitions_for(topic))
        count = self._partition_counts[topic]
        if not 0 <= partition < count:
            raise InvalidRecordError(
                f"the column 'partition' says {TopicPartition(topic, partition)}, "
                f"but the topic has partitions 0 to {count - 1}"
            )

    def _send(self, topic: str, partition: int | None, rows: Any) -> None:
        if not rows.num_rows:
            return
        values, keys, headers = (_column(rows, name) for name in ("value", "key", "headers"))
        if headers is not None and headers.null_count < len(headers):
            self._send_singly(topic, partition, rows)
            return
        keys = None if keys is None or keys.null_count == len(keys) else as_binary(keys)
        future = self._producer.send_many(topic, as_binary(values), keys=keys, partition=partition)
        self._pending.append((topic, future, rows.num_rows))

    def _send_singly(self, topic: str, partition: int | None, rows: Any) -> None:
        values = as_binary(_column(rows, "value")).to_pylist()
        keys = _column(rows, "key")
        keys = [None] * len(values) if keys is None else as_binary(keys).to_pylist()
        headers = rows.column("headers").to_pylist()
        for value, key, pairs in zip(values, keys, headers, strict=True):
            own = [(pair["key"], pair["value"]) for pair in pairs or ()] or None
            if own and any(name is None for name, _ in own):
                raise InvalidRecordError(f"a row for topic {topic!r} has a header without a key")
            future = self._producer.send(topic, value=value, key=key, headers=own, partition=partition)
            self._pending.append((topic, future, 1))

    def __repr__(self) -> str:
        return f"TaskWriter(taken={self._taken}, acked={self._acked}, pending={len(self._pending)})"


def _column(batch: Any, name: str) -> Any | None:
    at = batch.schema.get_field_index(name)
    return batch.column(at) if at >= 0 else None
