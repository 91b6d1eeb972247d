"""Keys of an Arrow array stay with their values, however they are given; a column that is no text or bytes is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.producer.partition_queue import PartitionQueue
from penstock.errors import InvalidRecordError
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from penstock.types import TopicPartition

pa = pytest.importorskip("pyarrow")

COUNT = 10
ROWS_AT_A_TIME = 4
VALUES = [b"v%d" % number for number in range(COUNT)]
KEYS = [None if number == 3 else b"k%d" % number for number in range(COUNT)]


class Plan:
    """A send_many to two partitions: to the one that was named, to the partitioner's, or by the keys' hashes."""

    limit_bytes = record_limit_bytes = 100_000
    timestamp_ms = 5
    partition_count = 2
    codec = Codec.NONE

    def __init__(self, *, has_partition: bool = False, has_partitioner: bool = False) -> None:
        self.has_partition, self.has_partitioner = has_partition, has_partitioner
        self.asked: list[bytes | None] = []
        self._queues = [PartitionQueue(TopicPartition("t", number), self.limit_bytes) for number in range(2)]

    def queue(self, key: bytes | None = None, value: bytes | None = None) -> PartitionQueue:
        self.asked.append(key)
        return self._queues[0 if key is None else key[-1] % 2]

    def queue_of(self, partition: int) -> PartitionQueue:
        return self._queues[partition]


def sent(plan: Plan, values: Any, keys: Any, monkeypatch: pytest.MonkeyPatch) -> dict[bytes | None, bytes | None]:
    """The key of each value that was sent."""
    from penstock.client.producer.bulk import bulk_arrow

    monkeypatch.setattr(bulk_arrow, "MAX_KEYED_ROWS", ROWS_AT_A_TIME)
    return {
        record.value: record.key
        for _, batch, _ in bulk_arrow.arrow_batches(plan, values, keys)
        for record in read_records(batch)
    }


@pytest.mark.parametrize(
    "given",
    [
        list,
        iter,
        pa.array,
        lambda keys: pa.chunked_array([keys[:5], keys[5:]]),
        lambda keys: pa.array(keys).cast(pa.large_string()),
        lambda keys: pa.chunked_array([pa.array(keys).dictionary_encode()]),
    ],
    ids=["list", "iterator", "array", "chunks", "strings", "dictionary"],
)
@pytest.mark.parametrize(
    "plan",
    [Plan(has_partition=True), Plan(has_partitioner=True), Plan()],
    ids=["partition", "partitioner", "hash"],
)
def test_every_value_keeps_its_key(plan: Plan, given: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(plan, pa.array(VALUES), given(KEYS), monkeypatch) == dict(zip(VALUES, KEYS, strict=True))
    assert all(key is None or isinstance(key, bytes) for key in plan.asked)


@pytest.mark.parametrize("plan", [Plan(has_partition=True), Plan(has_partitioner=True), Plan()])
def test_a_column_that_is_neither_text_nor_bytes_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    for values, keys in ((pa.array(VALUES), pa.array(range(COUNT))), (pa.array(range(COUNT)), pa.array(KEYS))):
        with pytest.raises(InvalidRecordError, match="a column of type int64 is not binary"):
            sent(plan, values, keys, monkeypatch)


@pytest.mark.parametrize("plan", [Plan(has_partition=True), Plan(has_partitioner=True), Plan()])
def test_a_table_in_place_of_a_column_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"value": VALUES})
    for values in (table, table.to_batches()[0]):
        with pytest.raises(TypeError, match=r"has columns; give one of them, like table\['value'\]"):
            sent(plan, values, pa.array(KEYS), monkeypatch)


def test_columns_of_different_lengths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRecordError, match="more values than keys"):
        sent(Plan(), pa.array(VALUES), KEYS[1:], monkeypatch)
