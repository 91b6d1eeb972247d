"""One record as a consumer hands it out, and many of them made in bulk. Not here: decoding (record/reader.py).

A record knows its topic's id and its leader epoch without a field for them: a field more costs each record a tenth of
its making. Both are the same for all records of a piece, so these are of a class that has them (`_class_of`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, cast

from penstock.client.consumer.origin import NO_ORIGIN, Origin
from penstock.client.options.foreign_words import RECORD_FIELDS, with_method_hints
from penstock.position import Position
from penstock.record.reader import RecordColumns
from penstock.types import TopicPartition

ORIGINS_MAX = 1_024
"""Classes that are kept for the next piece of the same topic and leader epoch. A record keeps its own."""


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

    @property
    def position(self) -> Position:
        """The position at which reading goes on AFTER this record: keep it once the record is done, and seek to it to
        go on.

        It is what `consumer.position` says when this record was the last one that a poll gave. A record that was made
        by hand is of no topic: its position has no topic id, and `seek` refuses it.
        """
        origin: Origin = getattr(self, "_origin", NO_ORIGIN)
        return Position(origin.topic_id, self.offset + 1, origin.epoch_at(self.offset))


@lru_cache(ORIGINS_MAX)
def _class_of(origin: Origin) -> type[ConsumerRecord]:
    """The class of records of that origin; in all else it is ConsumerRecord."""

    def reduced(record: ConsumerRecord) -> tuple[Any, ...]:
        return _restored, (origin, tuple(record))

    more = {"__slots__": (), "__reduce__": reduced, "__module__": __name__, "_origin": origin}
    return cast(type[ConsumerRecord], type("ConsumerRecord", (ConsumerRecord,), more))


def _restored(origin: Origin, fields: tuple[Any, ...]) -> ConsumerRecord:
    """A record that was pickled."""
    return tuple.__new__(_class_of(origin), fields)


def make_records(tp: TopicPartition, columns: RecordColumns, origin: Origin = NO_ORIGIN) -> list[ConsumerRecord]:
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
        return list(map(tuple.__new__, repeat(_class_of(origin)), rows))
    finally:
        if was_enabled:
            gc.enable()
