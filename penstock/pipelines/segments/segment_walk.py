"""Walks over the batches of one closed segment: verifies each, and tells what the file is made of.

    for found in walk_segment(segment): a `WalkedBatch` for each batch, a `SegmentFault` for each fault, in order

What must hold: every checksum is right, offsets follow each other from the file's name to the next file's name, leader
epochs never fall. After a wrong checksum or a gap the walk goes on; where a header makes no sense, what follows cannot
be found, and the walk ends. A file that retention removes meanwhile gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.errors import CorruptMessageError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.segments.replica_files import ClosedSegment
from penstock.record import verifier
from penstock.record.batch import HEADER_BYTES, BatchHeader, read_header, verify_crc
from penstock.types import NO_EPOCH

READ_BYTES = 4 * 1024 * 1024
BATCH_BYTES_MAX = 256 * 1024 * 1024
"""A header that announces more is damaged: no node takes such a batch."""


@dataclass(frozen=True, slots=True)
class WalkedBatch:
    """A batch that is whole; equal batches of two replicas have equal fields but for the position."""

    position: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    record_count: int


@dataclass(frozen=True, slots=True)
class SegmentFault:
    """A fault in a file, and from which offset to which; `kind` is a word for scripts."""

    kind: str
    position: int
    first_offset: int
    next_offset: int
    text: str


def walk_segment(segment: ClosedSegment) -> Iterator[WalkedBatch | SegmentFault]:
    """Everything in the file, in order."""
    state = _Walk(segment)
    try:
        with Path(segment.path).open("rb") as file:
            yield from state.run(file)
    except FileNotFoundError:
        return


class _Walk:
    """The place of the walk, and what must come next."""

    def __init__(self, segment: ClosedSegment) -> None:
        self._segment = segment
        self._expected = segment.base_offset
        self._epoch = NO_EPOCH

    def run(self, file: BinaryIO) -> Iterator[WalkedBatch | SegmentFault]:
        buffer, at, begin = b"", 0, 0  # `begin` is where the buffer begins in the file
        while True:
            try:
                need = _need(buffer, at)
            except CorruptMessageError as error:
                yield self._unreadable(begin + at, str(error))
                return
            if len(buffer) - at >= need:
                yield from self._batch(begin + at, buffer, at)
                at += need
                continue
            more = file.read(max(READ_BYTES, need))
            if not more:
                break
            buffer, at, begin = buffer[at:] + more, 0, begin + at
        if at < len(buffer):
            yield self._unreadable(begin + at, f"the last {len(buffer) - at} bytes are not a whole batch")
        elif fault := self._gap(begin + at, self._segment.next_base_offset):
            yield fault

    def _batch(self, position: int, buffer: bytes, at: int) -> Iterator[WalkedBatch | SegmentFault]:
        header = read_header(buffer, at)
        if fault := self._gap(position, header.base_offset):
            yield fault
        if not verify_crc(buffer, at, header):
            yield _fault("rot", position, header, verifier.WRONG_CHECKSUM)
        else:
            if why := verifier.epoch_order_fault(header.leader_epoch, self._epoch):
                yield _fault("epoch", position, header, why)
            if why := verifier.count_fault(header):
                yield _fault("count", position, header, why)
            yield WalkedBatch(
                position, header.base_offset, header.next_offset, header.leader_epoch, header.crc, header.record_count
            )
        self._epoch = max(self._epoch, header.leader_epoch)
        self._expected = header.next_offset

    def _gap(self, position: int, offset: int) -> SegmentFault | None:
        expected = self._expected
        if offset == expected:
            return None
        if offset > expected:
            text = f"offsets [{expected}, {offset}) are missing"
            return SegmentFault("missing", position, expected, offset, text)
        return SegmentFault(
            "overlap", position, offset, expected, f"offset {offset} stands where {expected} should follow"
        )

    def _unreadable(self, position: int, why: str) -> SegmentFault:
        return SegmentFault("unreadable", position, self._expected, self._segment.next_base_offset, why)


def _need(buffer: bytes, at: int) -> int:
    """The bytes of the batch at `at`; of a header, as long as that is not there."""
    if len(buffer) - at < HEADER_BYTES:
        return HEADER_BYTES
    size = read_header(buffer, at).size_bytes
    if size > BATCH_BYTES_MAX:
        raise CorruptMessageError(f"its length says {size} bytes; no batch has more than {BATCH_BYTES_MAX}")
    return size


def _fault(kind: str, position: int, header: BatchHeader, why: str) -> SegmentFault:
    text = verifier.at_offset(header.base_offset, why)
    return SegmentFault(kind, position, header.base_offset, header.next_offset, text)
