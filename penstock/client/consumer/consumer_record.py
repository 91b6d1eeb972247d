"""One record as a consumer hands it out, and many of them made in bulk. Not here: decoding (record/reader.py)."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

from penstock.client.cluster.foreign_words import RECORD_FIELDS, with_method_hints
from penstock.record.reader import RecordColumns
from penstock.types import TopicPartition


@with_method_hints(RECORD_FIELDS)
class ConsumerRecord(NamedTuple):
    """One record with its place. `timestamp_type` is 0 for create time and 1 for log append time."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def make_records(tp: TopicPartition, columns: RecordColumns) -> list[ConsumerRecord]:
    """Every row of `columns`, made by C code: a million a second and more."""
    keys: Iterable[bytes | None] = repeat(None) if columns.keys is None else columns.keys
    headers: Iterable[tuple[tuple[str, bytes | None], ...]] = repeat(()) if columns.headers is None else columns.headers
    rows = zip(
        repeat(tp.topic),
        repeat(tp.partition),
        columns.offsets,
        columns.timestamps_ms,
        columns.timestamp_types,
        keys,
        columns.values,
        headers,
        strict=False,
    )
    # The collector would walk these new objects, which cannot be in a cycle, at every 700th: half of the whole cost.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return list(map(tuple.__new__, repeat(ConsumerRecord), rows))
    finally:
        if was_enabled:
            gc.enable()
