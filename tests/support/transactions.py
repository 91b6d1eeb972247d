"""Transactional batches and markers as bytes, and a plain model of what a read_committed reader gets of a log."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from penstock.record.batch import BatchHeader, iter_headers, read_header, set_placement
from penstock.record.builder import build_batch
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, RecordColumns, batch_body, columns_of_batch
from storage.segment.transaction_index import AbortedRange
from tests.support.storage import NOW_MS

ABORT, COMMIT = 0, 1


@dataclass(frozen=True, slots=True)
class Stored:
    """One record, as a reader gets it."""

    offset: int
    key: bytes | None
    value: bytes | None


def marker_bytes(producer_id: int, epoch: int, kind: int, timestamp_ms: int = NOW_MS) -> bytes:
    """A marker, of coordinator epoch 3."""
    return build_batch(
        [struct.pack(">hi", 0, 3)],
        keys=[struct.pack(">hh", 0, kind)],
        timestamps_ms=timestamp_ms,
        is_control=True,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def kind_of(batch: bytes, header: BatchHeader) -> int:
    """ABORT or COMMIT, of a marker."""
    kind: int = struct.unpack(">hh", columns_of(batch, header).keys[0])[1]  # type: ignore[index,arg-type]
    return kind


def columns_of(batch: bytes, header: BatchHeader) -> RecordColumns:
    return columns_of_batch(*batch_body(batch, 0, header, DEFAULT_MAX_DECOMPRESSED_BYTES), header)


def batches_of(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    return [(header, data[at : at + header.size_bytes]) for at, header in iter_headers(data)]


@dataclass(slots=True)
class Ends:
    """The transactions of a log, as its batches tell them."""

    open: dict[int, int] = field(default_factory=dict)
    """Producer id to the first offset of its open transaction."""
    aborted: list[AbortedRange] = field(default_factory=list)
    """In the order of their markers."""

    def take(self, header: BatchHeader, batch: bytes) -> None:
        if header.is_transactional and not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
        elif header.is_control and header.record_count:
            first = self.open.pop(header.producer_id, None)
            if first is not None and kind_of(batch, header) == ABORT:
                self.aborted.append(AbortedRange(header.producer_id, first, header.base_offset))


def ends_of(batches: Iterable[tuple[BatchHeader, bytes]]) -> Ends:
    ends = Ends()
    for header, batch in batches:
        ends.take(header, batch)
    return ends


def committed(batches: Iterable[tuple[BatchHeader, bytes]], aborted: Iterable[AbortedRange]) -> list[Stored]:
    """The records that Kafka's consumer delivers with this index: a producer's records are dropped from the first
    offset of an aborted transaction on, up to the next abort marker of the producer."""
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    dropped: set[int] = set()
    found: list[Stored] = []
    for header, batch in batches:
        while waiting and waiting[0].first_offset <= header.last_offset:
            dropped.add(waiting.pop(0).producer_id)
        if header.is_control:
            if header.record_count and kind_of(batch, header) == ABORT:
                dropped.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in dropped):
            columns = columns_of(batch, header)
            keys: Sequence[bytes | None] = columns.keys or [None] * header.record_count
            found += [Stored(*row) for row in zip(columns.offsets, keys, columns.values, strict=True)]
    return found


class DrawnTransactions:
    """Draws the batches of a log with several transactional producers and a plain one, from a seed."""

    def __init__(self, random: Random, producers: int = 4, keys: int = 6) -> None:
        self._random, self._keys = random, keys
        self.sequences = {100 + n: 0 for n in range(producers)}
        self.epochs = dict.fromkeys(self.sequences, 0)
        self.open: dict[int, int] = {}
        """Producer id to the number of its batches in the open transaction."""
        self._count = 0

    def _records(self) -> tuple[list[bytes | None], list[bytes | None]]:
        count = self._random.choice((1, 1, 2, 4))
        keys: list[bytes | None] = [b"k%d" % self._random.randrange(self._keys) for _ in range(count)]
        values: list[bytes | None] = []
        for _ in range(count):
            self._count += 1
            values.append(None if self._random.random() < 0.1 else b"v%05d" % self._count)
        return keys, values

    def next(self) -> bytes:
        """A batch, or a marker, to be appended."""
        random = self._random
        if random.random() < 0.2:
            keys, values = self._records()
            return build_batch(values, keys=keys, timestamps_ms=NOW_MS)
        producer_id = random.choice(list(self.sequences))
        if producer_id in self.open and random.random() < 0.4:
            return self.end(producer_id, random.choice((ABORT, COMMIT)))
        return self.data(producer_id)

    def data(self, producer_id: int) -> bytes:
        keys, values = self._records()
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] += len(keys)
        self.open[producer_id] = self.open.get(producer_id, 0) + 1
        return build_batch(
            values,
            keys=keys,
            timestamps_ms=NOW_MS,
            is_transactional=True,
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            base_sequence=sequence,
        )

    def end(self, producer_id: int, kind: int) -> bytes:
        """The marker, of version 2 mostly: with the bumped epoch."""
        self.open.pop(producer_id, None)
        if self._random.random() < 0.7:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        return marker_bytes(producer_id, self.epochs[producer_id], kind)


def placed(batch: bytes, offset: int, epoch: int = 0) -> bytes:
    """The batch at its place in a log."""
    data = bytearray(batch)
    set_placement(data, 0, offset, epoch)
    return bytes(data)


def next_offset(batch: bytes) -> int:
    return read_header(batch).next_offset
