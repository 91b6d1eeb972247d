"""Cuts a run of records of one shape out of a batch at C speed.

Producers often send records of one size. The current record gives a stride and the places of its fields. The guess is
that the following records have the same shape. Every byte that must then be equal (lengths, null marks, header count)
is compared over the following records as one strided slice; the leading records that agree are taken. By induction the
guess is right for these: each has the first one's length, so the next begins one stride on. Offset and time may differ,
but not in width. Not here: records of different shapes (decoding.py, row_scan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from struct import iter_unpack
from typing import NamedTuple

from penstock.errors import CorruptMessageError
from penstock.record.varint import MAX_VARINT_BYTES, TABLE_LIMIT, VARINTS, WIDTH_LIMITS, decode_varint, decode_zigzag

MIN_RUN_RECORDS = 16
"""A shorter equal run is cheaper in the loop."""
MAX_RUN_RECORDS = 4096
"""How many records one guess compares: hostile bytes that make each guess fail late still cost linear time."""
MAX_TIME_WIDTH = 9
"""Nine bytes hold 63 bits; a tenth could overflow, which the loop checks for each record."""
_DENSE_COLUMNS = (
    (bytes(VARINTS[delta][0] for delta in range(WIDTH_LIMITS[0])),),
    tuple(bytes(VARINTS[delta][at] for delta in range(WIDTH_LIMITS[0], TABLE_LIMIT)) for at in range(2)),
)
"""Dense offset deltas as columns of bytes: those of one byte, and those of two."""
_CONTINUES = bytes(byte >> 7 for byte in range(256))
_NOT_NEGATIVE = bytes(1 - (byte & 1) for byte in range(256))
"""True by the low byte of a zig-zag number, if the number is not negative."""
_UP_TO = tuple(bytes(range(byte + 1)) for byte in range(256))
_IS = tuple(bytes(byte) + b"\x01" + bytes(255 - byte) for byte in range(256))
ALL_NEGATIVE = -1


class EqualRun(NamedTuple):
    """Records of one shape as columns, and the position after them."""

    after: int
    offset_deltas: Sequence[int]
    time_zigzags: list[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


class _Shape(NamedTuple):
    """The places of the fields of one record, counted from its first byte."""

    time_at: int
    offset_at: int
    key_length_at: int
    key_at: int
    key_len: int
    value_length_at: int
    value_at: int
    value_len: int
    stride: int

    @property
    def has_short_lengths(self) -> bool:
        """True if no length and no offset delta has more bytes than 32 bits need."""
        return (
            self.time_at - 1 <= MAX_VARINT_BYTES
            and self.key_length_at - self.offset_at <= MAX_VARINT_BYTES
            and self.key_at - self.key_length_at <= MAX_VARINT_BYTES
            and self.value_at - self.value_length_at <= MAX_VARINT_BYTES
        )


def take_equal_run(data: bytes, at: int, end: int, count: int) -> EqualRun | None:
    """The leading ones of the `count` records at `at` that have the first one's shape; None if they are few."""
    shape = _shape(data, at, end)
    if shape is None or shape.offset_at - shape.time_at > MAX_TIME_WIDTH:
        return None
    run = _of_one_shape(data, at, min(count, (end - at) // shape.stride, MAX_RUN_RECORDS), shape)
    if run < MIN_RUN_RECORDS:
        return None
    times, run = _varint_column(data, at + shape.time_at, shape.offset_at - shape.time_at, shape.stride, run)
    deltas, run = _offset_column(data, at + shape.offset_at, shape.key_length_at - shape.offset_at, shape.stride, run)
    if run < MIN_RUN_RECORDS:
        return None
    keys, values = _cut_fields(data, at, run, shape)
    return EqualRun(at + run * shape.stride, deltas[:run], times[:run], keys, values)


def leading_equal_records(data: bytes, at: int, end: int, count: int, first_delta: int) -> tuple[int, int, int]:
    """How many of the `count` records at `at` have the first one's shape and offset deltas that count up from
    `first_delta`, the position behind them, and the zig-zag number of their largest time delta that is not negative, or
    ALL_NEGATIVE. (0, at, ALL_NEGATIVE) where they are few, or a length has more than five bytes. Nothing is cut out."""
    few, shape = (0, at, ALL_NEGATIVE), _shape(data, at, end)
    if shape is None or shape.offset_at - shape.time_at > MAX_TIME_WIDTH or not shape.has_short_lengths:
        return few
    stride = shape.stride
    run = _of_one_shape(data, at, min(count, (end - at) // stride, MAX_RUN_RECORDS), shape)
    if run < MIN_RUN_RECORDS:
        return few
    times = _columns(data, at + shape.time_at, shape.offset_at - shape.time_at, stride, run)
    run = _leading_width(times, run)
    if run < MIN_RUN_RECORDS:
        return few
    deltas, run = _offset_column(data, at + shape.offset_at, shape.key_length_at - shape.offset_at, stride, run)
    if run < MIN_RUN_RECORDS or not isinstance(deltas, range) or deltas.start != first_delta:
        return few
    return run, at + run * stride, _largest_not_negative([column[:run] for column in times])


def _of_one_shape(data: bytes, at: int, run: int, shape: _Shape) -> int:
    """How many of `run` records have the first one's lengths, null marks and header count."""
    fixed = (
        *range(shape.time_at - 1),
        *range(shape.key_length_at, shape.key_at),
        *range(shape.value_length_at, shape.value_at),
        shape.stride - 1,
    )
    for place in fixed:
        column = data[at + place : at + place + (run - 1) * shape.stride + 1 : shape.stride]
        if column.count(column[0]) < run:
            run -= len(column.lstrip(column[:1]))
            if run < MIN_RUN_RECORDS:
                break
    return run


def _shape(data: bytes, at: int, end: int) -> _Shape | None:
    """The shape of the record at `at`; None where it has headers, or is not one (the loop will say why)."""
    try:
        size, size_end = decode_zigzag(data, at)
        time_at = size_end + 1
        _, offset_at = decode_zigzag(data, time_at)
        _, key_length_at = decode_zigzag(data, offset_at)
        key_size, key_at = decode_zigzag(data, key_length_at)
        key_len = key_size >> 1 ^ -(key_size & 1)
        value_length_at = key_at + key_len if key_len > 0 else key_at
        value_size, value_at = decode_zigzag(data, value_length_at)
        value_len = value_size >> 1 ^ -(value_size & 1)
    except CorruptMessageError:
        return None
    after = (value_at + value_len if value_len > 0 else value_at) + 1
    if size & 1 or key_len < -1 or value_len < -1 or after != size_end + (size >> 1) or after > end or data[after - 1]:
        return None
    return _Shape(
        time_at=time_at - at,
        offset_at=offset_at - at,
        key_length_at=key_length_at - at,
        key_at=key_at - at,
        key_len=key_len,
        value_length_at=value_length_at - at,
        value_at=value_at - at,
        value_len=value_len,
        stride=after - at,
    )


def _varint_column(data: bytes, at: int, width: int, stride: int, run: int) -> tuple[list[int], int]:
    """One varint of each record, and for how many of them it has this width."""
    columns = _columns(data, at, width, stride, run)
    if all(column.count(column[:1]) == run for column in columns):
        zigzag, _ = decode_zigzag(data, at)
        return [zigzag] * run, run
    run = _leading_width(columns, run)
    numbers = list(columns[0])
    for place, column in enumerate(columns[1:], start=1):
        shift = 7 * place
        numbers = [number & (1 << shift) - 1 | byte << shift for number, byte in zip(numbers, column, strict=True)]
    return numbers, run


def _columns(data: bytes, at: int, width: int, stride: int, run: int) -> list[bytes]:
    """The bytes of one varint of each record, the low ones first."""
    return [data[at + place : at + place + (run - 1) * stride + 1 : stride] for place in range(width)]


def _largest_not_negative(columns: list[bytes]) -> int:
    """The largest zig-zag number of a number that is not negative, among varints of one width; else ALL_NEGATIVE. It is
    found byte by byte, from the highest on: only the rows that have the largest one go on."""
    marks = columns[0].translate(_NOT_NEGATIVE)
    if 0 in marks:
        columns = _chosen(columns, marks)
        if not columns[0]:
            return ALL_NEGATIVE
    largest = 0
    for place in range(len(columns) - 1, -1, -1):
        column = columns[place]
        top = column[-1]  # times mostly ascend
        if above := column.translate(None, _UP_TO[top]):
            top = max(above)
        largest = largest << 7 | top & 0x7F
        count = column.count(top)
        if place and count < len(column):
            begin = column.find(top)
            if count == len(column) - begin:
                columns = [column[begin:] for column in columns[:place]]
            else:
                columns = _chosen(columns[:place], column.translate(_IS[top]))
    return largest


def _chosen(columns: list[bytes], marks: bytes) -> list[bytes]:
    """The rows whose mark is 1; the marks are 0 and 1."""
    begin, end = marks.find(1), marks.rfind(1) + 1
    columns, marks = [column[begin:end] for column in columns], marks[begin:end]
    return [bytes(compress(column, marks)) for column in columns] if 0 in marks else columns


def _leading_width(columns: Sequence[bytes], run: int) -> int:
    """How many varints, given by columns of their bytes, end with the last column."""
    last = len(columns) - 1
    for place, column in enumerate(columns):
        if place < last or not column.isascii():
            continues = column.translate(_CONTINUES)
            run = min(run, len(column) - len(continues.lstrip(b"\x00" if place == last else b"\x01")))
    return run


def _offset_column(data: bytes, at: int, width: int, stride: int, run: int) -> tuple[Sequence[int], int]:
    """The offset deltas, and how many of them have this width; dense ones are recognised without taking them apart."""
    first, _ = decode_varint(data, at)
    low = 0 if width == 1 else WIDTH_LIMITS[width - 2]
    if 1 <= width <= len(_DENSE_COLUMNS) and low <= first:
        dense = min(run, WIDTH_LIMITS[width - 1] - first)
        stop = at + (dense - 1) * stride + 1
        expected = _DENSE_COLUMNS[width - 1]
        if all(
            data[at + place : stop + place : stride] == expected[place][first - low : first - low + dense]
            for place in range(width)
        ):
            return range(first, first + dense), dense
    zigzags, run = _varint_column(data, at, width, stride, run)
    return deltas_of(zigzags[:run]), run


def deltas_of(zigzags: list[int]) -> Sequence[int]:
    """Offset deltas from their zig-zag numbers: a range where they are dense."""
    first = zigzags[0]
    if not first & 1 and zigzags == list(range(first, first + 2 * len(zigzags), 2)):
        return range(first >> 1, (first >> 1) + len(zigzags))
    return [zigzag >> 1 ^ -(zigzag & 1) for zigzag in zigzags]


def _cut_fields(data: bytes, at: int, run: int, shape: _Shape) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    """Keys and values of a run."""
    key = f"{shape.key_len}s" if shape.key_len >= 0 else ""
    value = f"{shape.value_len}s" if shape.value_len >= 0 else ""
    tail = shape.stride - shape.value_at - max(shape.value_len, 0)
    layout = f"{shape.key_at}x{key}{shape.value_at - shape.value_length_at}x{value}{tail}x"
    with memoryview(data) as view:
        cut: list[bytes] = list(chain.from_iterable(iter_unpack(layout, view[at : at + run * shape.stride])))
    nulls: list[bytes | None] = [None] * run
    if key and value:
        return cut[0::2], cut[1::2]
    return (cut if key else nulls), (cut if value else nulls)
