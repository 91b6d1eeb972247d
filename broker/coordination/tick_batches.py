"""Makes the batches of one append out of the records of many turns.

The records of a turn stand in one batch wherever they fit into one: a log is cut and replicated by whole batches, so
all of them are there after a failover, or none. A turn with more records than a batch may have (a very large group got
a new assignment) takes several batches; a failover between them leaves a beginning of the turn, in its order. An append
has several batches, and at most `segment_bytes` of them. A record larger than `max.message.bytes` is a batch of its
own, which the log takes from a coordinator: the limit may have been lowered since the core took it.

A batch belongs to no transaction, or to that of one producer, which has no sequence there. All stay in the order in
which they were decided. A batch with a producer is an append of its own. Not here: markers (shard_log.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from broker.coordination.record_log import StateRecord, TransactionalRecord, TxnProducer, Written
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
    """Records of one producer's transaction, or of none."""

    def __init__(self, producer: TxnProducer | None) -> None:
        self.producer = producer
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        self.size_bytes = HEADER_BYTES

    def add(self, keys: Sequence[bytes], values: Sequence[bytes | None], size_bytes: int) -> None:
        self.keys += keys
        self.values += values
        self.size_bytes += size_bytes

    def build(self, wall_ms: int, codec: Codec) -> bytes:
        if self.producer is None:
            return build_batch(self.values, keys=self.keys, timestamps_ms=wall_ms, codec=codec)
        return build_batch(
            self.values,
            keys=self.keys,
            timestamps_ms=wall_ms,
            codec=codec,
            is_transactional=True,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
        )


def tick_batches(turns: Iterable[Sequence[Written]], encode: Encode, wall_ms: int, limits: TickLimits) -> list[bytes]:
    """The bytes of each append, in order."""
    appends: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for batch in _batches(turns, encode, limits.batch_bytes):
        built, is_alone = _built(batch, wall_ms, limits), batch.producer is not None
        if parts and (is_alone or size + len(built) > limits.append_bytes):
            appends.append(b"".join(parts))
            parts, size = [], 0
        if is_alone:
            appends.append(built)
        else:
            parts.append(built)
            size += len(built)
    if parts:
        appends.append(b"".join(parts))
    return appends


def _built(batch: _Batch, wall_ms: int, limits: TickLimits) -> bytes:
    built = batch.build(wall_ms, limits.codec)
    if len(built) > limits.batch_bytes and limits.codec is not Codec.NONE:
        built = batch.build(wall_ms, Codec.NONE)  # what cannot be compressed grows by the codec's frame
    return built


def _batches(turns: Iterable[Sequence[Written]], encode: Encode, batch_bytes: int) -> Iterator[_Batch]:
    batch = _Batch(None)
    for entries in turns:
        for producer, run in groupby(entries, _producer_of):
            if batch.producer != producer:
                if batch.keys:
                    yield batch
                batch = _Batch(producer)
            batch = yield from _filled(batch, [(entry[0], entry[1]) for entry in run], encode, batch_bytes)
    if batch.keys:
        yield batch


def _producer_of(entry: Written) -> TxnProducer | None:
    return entry.producer if isinstance(entry, TransactionalRecord) else None


def _filled(
    batch: _Batch, records: Sequence[StateRecord], encode: Encode, batch_bytes: int
) -> Generator[_Batch, None, _Batch]:
    """The batches that are full by records of one turn; returns the one that is not yet."""
    encoded = [encode(key, value) for key, value in records]
    sizes = [record_size_bytes_upper(-1 if value is None else len(value), len(key)) for key, value in encoded]
    total = sum(sizes)
    if batch.keys and batch.size_bytes + total > batch_bytes:
        yield batch
        batch = _Batch(batch.producer)
    if HEADER_BYTES + total <= batch_bytes:
        batch.add([key for key, _ in encoded], [value for _, value in encoded], total)
        return batch
    for (key, value), size in zip(encoded, sizes, strict=True):
        if batch.keys and batch.size_bytes + size > batch_bytes:
            yield batch
            batch = _Batch(batch.producer)
        batch.add([key], [value], size)
    return batch
