"""Cuts many values into batches for send_many, without an object per record.

A run is a list of values (and keys) of one partition that fits one batch. Values without keys are cut by count and
size; with keys they are first put together by partition. Arrow arrays are sliced, never unpacked. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

from penstock.client.producer.batch import RECORD_OVERHEAD_BYTES
from penstock.errors import InvalidRecordError
from penstock.lazy_dataclass import dataclass
from penstock.record.lone_batch import LONE_OVERHEAD_BYTES, check_record_size

FIRST_GUESS = 1_024
MAX_RUN_RECORDS = 100_000
KEYED_CHUNK_RECORDS = 16_384
"""How many records with keys are looked at together before they are grouped by partition."""


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one batch; `keys` is None when every key is null."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None


def is_arrow(values: Any) -> bool:
    """True if `values` is a pyarrow array; does not import pyarrow."""
    return type(values).__module__.startswith("pyarrow")


def runs(values: Iterable[bytes | None], limit_bytes: int, record_limit_bytes: int) -> Iterator[Run]:
    """Cuts values without keys into runs of at most `limit_bytes` each; a larger value is a run of its own."""
    iterator = iter(values)
    count = FIRST_GUESS
    while chunk := list(islice(iterator, count)):
        size = _total_bytes(chunk, record_limit_bytes)
        if size > limit_bytes:
            for low, high in _cut(chunk, limit_bytes):
                yield Run(chunk[low:high])
        else:
            yield Run(chunk)
        average = max(size // len(chunk), 1)
        count = max(1, min(limit_bytes // average, MAX_RUN_RECORDS))


def keyed_chunks(
    values: Iterable[bytes | None], keys: Iterable[bytes | None] | None
) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
    """Equal-length pieces of both columns; every key is null where there are no `keys`."""
    value_iterator, key_iterator = iter(values), None if keys is None else iter(keys)
    while True:
        chunk = list(islice(value_iterator, KEYED_CHUNK_RECORDS))
        their_keys: list[bytes | None] = [None] * len(chunk)
        if key_iterator is not None:
            their_keys = list(islice(key_iterator, KEYED_CHUNK_RECORDS))
        if len(chunk) != len(their_keys):
            raise InvalidRecordError("send_many got more values than keys, or more keys than values")
        if not chunk:
            return
        yield chunk, their_keys


def cut_keyed(
    values: Sequence[bytes | None], keys: Sequence[bytes | None], limit_bytes: int, record_limit_bytes: int
) -> Iterator[Run]:
    """Cuts records of one partition into runs."""
    _total_bytes(values, record_limit_bytes)
    _total_bytes(keys, record_limit_bytes)
    joint = [(value or b"") + (key or b"") for value, key in zip(values, keys, strict=True)]
    lengths = list(map(len, joint))
    if max(lengths, default=0) + LONE_OVERHEAD_BYTES > record_limit_bytes:
        largest = lengths.index(max(lengths))
        check_record_size(values[largest], keys[largest], (), record_limit_bytes)
    for low, high in _cut(joint, limit_bytes):
        yield Run(values[low:high], keys[low:high])


def _total_bytes(values: Sequence[bytes | None], record_limit_bytes: int) -> int:
    """The encoded size of all values, about; checks every type and size."""
    strange = set(map(type, values)) - {bytes, type(None)}
    if strange:
        raise TypeError(f"send_many takes bytes or None, not {', '.join(sorted(kind.__name__ for kind in strange))}")
    present: Sequence[Any] = values if None not in values else [value for value in values if value is not None]
    size = sum(map(len, present))
    if size + LONE_OVERHEAD_BYTES > record_limit_bytes:
        largest = max(map(len, present), default=0)
        if largest + LONE_OVERHEAD_BYTES > record_limit_bytes:
            check_record_size(max(present, key=len, default=None), None, (), record_limit_bytes)
    return size + RECORD_OVERHEAD_BYTES * len(values)


def _cut(values: Sequence[bytes | None], limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of values that fit one batch each."""
    sizes = [RECORD_OVERHEAD_BYTES if value is None else len(value) + RECORD_OVERHEAD_BYTES for value in values]
    low, before = 0, 0
    for index, total in enumerate(accumulate(sizes)):
        if total - before > limit_bytes and index > low:
            yield low, index
            low, before = index, total - sizes[index]
    yield low, len(values)
