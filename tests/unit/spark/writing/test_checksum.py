"""Promises about the checksum of rows: any order and any division give the same, other rows give another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.schema import HEADERS
from penstock.spark.writing.checksum import LONG_BYTES, RowSum
from penstock.spark.writing.refusals import RowsWritten

HEADER_LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADER_LIST,
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
Row = dict[str, Any]
MASK = (1 << 64) - 1
NULL, SEED, FACTOR, LENGTH = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def batch_of(rows: Iterable[Row], names: Iterable[str] = TYPES) -> Any:
    found = list(rows)
    return pa.record_batch({name: pa.array([row.get(name) for row in found], TYPES[name]) for name in names})


def total(*batches: Any, topic: str = "") -> RowsWritten:
    counted = RowSum(topic)
    for batch in batches:
        counted.add(batch)
    return RowsWritten.of([(counted.rows, counted.total)])


def some_row(random: Random) -> Row:
    sizes = (0, 1, 7, 8, 9, 15, 16, 100, LONG_BYTES, LONG_BYTES + 1)
    data = lambda: random.choice((None, random.randbytes(random.choice(sizes))))  # noqa: E731
    headers = [{"key": random.choice(("a", "bc")), "value": data()} for _ in range(random.randint(0, 3))]
    return {
        "key": data(),
        "value": data(),
        "headers": random.choice((None, headers)),
        "topic": random.choice(("t", "tt")),
        "partition": random.choice((None, 0, 7)),
        "timestamp": random.choice((None, 0, 1_700_000_000_000_000)),
    }


def mixed(number: int) -> int:
    number = (number ^ (number >> 33)) * FACTOR & MASK
    return number ^ (number >> 29)


def of_bytes(value: bytes | None) -> int:
    if value is None:
        return NULL
    found = (SEED + len(value) * LENGTH) & MASK
    if len(value) > LONG_BYTES:
        return mixed(found ^ int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little"))
    for at in range(0, len(value), 8):
        found = mixed(found ^ int.from_bytes(value[at : at + 8], "little"))
    return mixed(found)


def plainly(row: Row) -> int:
    """The hash of one row, a step at a time."""
    found = 0
    for name in ("key", "value", "headers", "topic", "partition", "timestamp"):
        value = row[name]
        if value is None:
            part = NULL
        elif name == "headers":
            each = [
                mixed(mixed(place + of_bytes(one["key"].encode()) & MASK) + of_bytes(one["value"]) & MASK)
                for place, one in enumerate(value)
            ]
            part = mixed((sum(each) & MASK) ^ len(value))
        elif isinstance(value, int):
            part = mixed(value ^ SEED)
        else:
            part = of_bytes(value.encode() if isinstance(value, str) else value)
        found = mixed((found + part) & MASK)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_sum_is_the_plain_one_in_any_order_and_division(seed: int) -> None:
    """The plain one must never change either: decisions keep it."""
    random = Random(seed)
    rows = [some_row(random) for _ in range(random.randint(1, 60))]
    wanted = RowsWritten.of((1, plainly(row)) for row in rows)
    assert total(batch_of(rows)) == wanted
    random.shuffle(rows)
    whole, batches = batch_of(rows), []
    while whole.num_rows:
        cut = random.randint(1, whole.num_rows)
        batches.append(whole.slice(0, cut))
        whole = whole.slice(cut)
    assert total(*batches) == wanted


def test_any_change_of_a_row_changes_the_sum() -> None:
    row = {"key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"1"}], "topic": "t", "partition": 0}
    row["timestamp"] = 1_700_000_000_000_000
    changes: list[Row] = [
        {"key": b"K"},
        {"key": None},
        {"key": b""},
        {"key": b"v", "value": b"k"},
        {"value": b"v\0"},
        {"value": b"x" * (LONG_BYTES + 1)},
        {"value": b"x" * LONG_BYTES + b"y"},
        {"headers": None},
        {"headers": []},
        {"headers": [{"key": "h", "value": b"2"}]},
        {"headers": [{"key": "h", "value": None}]},
        {"headers": [{"key": "h", "value": b"1"}] * 2},
        {"headers": [{"key": "h", "value": b"1"}, {"key": "i", "value": b"1"}]},
        {"headers": [{"key": "i", "value": b"1"}, {"key": "h", "value": b"1"}]},
        {"topic": "u"},
        {"partition": 1},
        {"partition": None},
        {"timestamp": None},
        {"timestamp": 1_700_000_000_001_000},
    ]
    sums = [total(batch_of([{**row, **change}])) for change in ({}, *changes)]
    assert len(set(sums)) == len(sums)
    assert total(batch_of([row, row])) != total(batch_of([row])), "a row that is twice counts twice"


def test_a_column_that_decides_nothing_does_not_count() -> None:
    rows = [{"value": b"v", "topic": topic} for topic in ("t", "u")]
    one, two = (total(batch_of([row], ("value", "topic")), topic="other") for row in rows)
    assert one == two == total(batch_of(rows[:1], ("value",)), topic="other")


def test_a_sum_is_above_nothing_told() -> None:
    assert RowsWritten.of([(0, 0)]).checksum == 1 == RowsWritten.of([(1, 1 << 63), (1, 1 << 63)]).checksum
    assert HEADERS.simpleString() == "array<struct<key:string,value:binary>>", "the type that headers have in Spark"
