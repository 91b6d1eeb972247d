"""Makes the batches of one append out of the records of many turns.

The records of a turn stand in one batch wherever they fit into one: a log is cut and replicated by whole batches, so
all of them are there after a failover, or none. A turn with more records than a batch may have (a very large group got
a new assignment) takes several batches; a failover between them leaves a beginning of the turn, in its order. An append
has several batches, and at most `segment_bytes` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from broker.coordination.record_log import StateRecord
from penstock.errors import InvariantViolation
from penstock.record.batch import HEADER_BYTES
from penstock.record.builder import build_batch, record_size_bytes_upper
from penstock.record.codecs import Codec

Encode = Callable[[Any, Any | None], tuple[bytes, bytes | None]]


class TickLimits(NamedTuple):
    """`max.message.bytes` and `segment.bytes` of the topic, and the codec of its batches."""

    batch_bytes: int
    append_bytes: int
    codec: Codec


class _Batch:
    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        self.size_bytes = HEADER_BYTES

    def add(self, keys: Sequence[bytes], values: Sequence[bytes | None], size_bytes: int) -> None:
        self.keys += keys
        self.values += values
        self.size_bytes += size_bytes

    def build(self, wall_ms: int, codec: Codec) -> bytes:
        return build_batch(self.values, keys=self.keys, timestamps_ms=wall_ms, codec=codec)


def tick_batches(
    turns: Iterable[Sequence[StateRecord]], encode: Encode, wall_ms: int, limits: TickLimits
) -> list[bytes]:
    """The bytes of each append, in order. A core has refused records that fit no batch, so one here is a defect."""
    batches = [batch for batch in _batches(turns, encode, limits.batch_bytes) if batch.keys]
    appends: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for batch in batches:
        built = batch.build(wall_ms, limits.codec)
        if len(built) > limits.batch_bytes and limits.codec is not Codec.NONE:
            built = batch.build(wall_ms, Codec.NONE)  # what cannot be compressed grows by the codec's frame
        if parts and size + len(built) > limits.append_bytes:
            appends.append(b"".join(parts))
            parts, size = [], 0
        parts.append(built)
        size += len(built)
    if parts:
        appends.append(b"".join(parts))
    return appends


def _batches(turns: Iterable[Sequence[StateRecord]], encode: Encode, batch_bytes: int) -> list[_Batch]:
    batches = [_Batch()]
    for records in turns:
        encoded = [encode(key, value) for key, value in records]
        sizes = [record_size_bytes_upper(-1 if value is None else len(value), len(key)) for key, value in encoded]
        total = sum(sizes)
        if batches[-1].keys and batches[-1].size_bytes + total > batch_bytes:
            batches.append(_Batch())
        if HEADER_BYTES + total <= batch_bytes:
            batches[-1].add([key for key, _ in encoded], [value for _, value in encoded], total)
            continue
        for (key, value), size, (record, _) in zip(encoded, sizes, records, strict=True):
            if HEADER_BYTES + size > batch_bytes:
                name = type(record).__name__
                raise InvariantViolation(
                    f"a record of a {name} has {size} bytes, and a batch has at most {batch_bytes}"
                )
            if batches[-1].size_bytes + size > batch_bytes:
                batches.append(_Batch())
            batches[-1].add([key], [value], size)
    return batches
