"""Finds the records of a batch and reads the varints in them, with numpy.

A record's length must be read before the next record can be found, so one short loop walks the lengths. It passes over
records of one size in strides, as equal_run.py does. All other varints are decoded for every record of a buffer in one
vectorised step.

Only bytes that are proved right are accepted: a varint too wide, or records that do not fill their batch, are a
`DoubtError`, and the caller takes the plain reader. Not here: what the numbers mean (arrow.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import CorruptMessageError
from penstock.record.decoding import LOOP_GROWTH
from penstock.record.equal_run import MAX_RUN_RECORDS, MIN_RUN_RECORDS
from penstock.record.varint import decode_varint
from penstock.record.verifier import room_fault

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]

MAX_VECTOR_VARINT_BYTES = 8
"""56 bits: no sum of such numbers overflows 64. Wider ones, which no honest length needs, go to the plain reader."""


class DoubtError(Exception):
    """The vectorised code cannot prove that the bytes are right; the plain reader decides."""


def record_starts(data: bytes, at: int, end: int, count: int) -> Longs:
    """The start of each record of a batch, found by their lengths alone; they must fill the batch."""
    if room_fault(count, end - at) is not None:
        raise DoubtError
    parts: list[Longs] = []
    left, loop_records = count, 1
    while left:
        run, stride = _equal_lengths(data, at, end, left) if left >= MIN_RUN_RECORDS else (0, 0)
        if run >= MIN_RUN_RECORDS:
            parts.append(np.arange(at, at + run * stride, stride, dtype=np.int64))
            at, left, loop_records = at + run * stride, left - run, 1
            continue
        take = min(loop_records, left) if left >= MIN_RUN_RECORDS else left
        starts, at = _walk(data, at, take)
        parts.append(np.array(starts, np.int64))
        left, loop_records = left - take, loop_records * LOOP_GROWTH
    if at != end:
        raise DoubtError
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _equal_lengths(data: bytes, at: int, end: int, count: int) -> tuple[int, int]:
    """How many records from `at` on have the first one's length, and how far apart they are."""
    try:
        size, after = decode_varint(data, at)
    except CorruptMessageError as error:
        raise DoubtError from error
    stride = after - at + size
    if size <= 0 or at + stride > end:
        raise DoubtError
    run = min(count, (end - at) // stride, MAX_RUN_RECORDS)
    for place in range(at, after):
        column = data[place : place + (run - 1) * stride + 1 : stride]
        run -= len(column.lstrip(column[:1]))
    return run, stride


def _walk(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    starts = []
    for _ in range(count):
        starts.append(at)
        size = data[at]
        if size < 0x80:
            at += 1 + (size >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2 + ((size & 0x7F | more << 7) >> 1)
        else:
            try:
                length, at = decode_varint(data, at)
            except CorruptMessageError as error:
                raise DoubtError from error
            at += max(length, 0)
    return starts, at


def varints(raw: Bytes, at: Longs) -> tuple[Longs, Longs]:
    """The zig-zag numbers at these positions, and the positions after them.

    A position behind the buffer reads its last byte; the caller finds out because the record then ends too late.
    """
    byte = raw.take(at, mode="clip")
    numbers, after = byte.astype(np.int64), at + 1
    wide = np.flatnonzero(byte > 0x7F)
    for place in range(1, MAX_VECTOR_VARINT_BYTES):
        if not wide.size:
            return numbers, after
        if wide.size == at.size:
            byte = raw.take(after, mode="clip")
            numbers &= (1 << 7 * place) - 1
            numbers |= byte.astype(np.int64) << 7 * place
            after += 1
            wide = np.flatnonzero(byte > 0x7F)
        else:
            byte = raw.take(after[wide], mode="clip")
            numbers[wide] = numbers[wide] & (1 << 7 * place) - 1 | byte.astype(np.int64) << 7 * place
            after[wide] += 1
            wide = wide[byte > 0x7F]
    if wide.size:
        raise DoubtError
    return numbers, after


def unzigzag(numbers: Longs) -> Longs:
    return (numbers >> 1) ^ -(numbers & 1)


def lengths(zigzags: Longs, nullable: bool = True) -> Longs:
    """Lengths, a null's being 0."""
    negative = zigzags & 1
    if negative.any() and (not nullable or (zigzags[negative == 1] != 1).any()):
        raise DoubtError
    return zigzags >> 1
