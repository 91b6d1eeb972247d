"""Batches of any records: they come back, the fast ways agree with a dumb one, and damage is always named.

The dumb decoder below reads one byte after the other and knows nothing of runs, tables or numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.record.arrow import build_batch_from_arrow, to_arrow_columns
from penstock.record.batch import HEADER_BYTES, BatchHeader, iter_headers, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, decompress
from penstock.record.decoding import HeaderTuple
from penstock.record.reader import Record, read_columns, read_records
from tests.support.amount import usually

TYPED = (CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError)
Row = tuple[bytes | None, bytes | None, HeaderTuple, int]
few = settings(max_examples=usually(20, long=80), derandomize=True, deadline=None, database=None)

nullable = st.none() | st.binary(max_size=5) | st.integers(0, 300).map(bytes) | st.just(bytes(9000))
times = st.integers(0, 50) | st.integers(0, 1 << 45) | st.integers(-(1 << 62), (1 << 62) - 1)
header_lists = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=70)), max_size=3).map(tuple)


@st.composite
def row_lists(draw: st.DrawFn, with_headers: bool = True) -> list[Row]:
    """Stretches of rows of one shape with single odd ones between, so that runs begin and end everywhere."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 4))):
        headers = draw(header_lists) if with_headers and draw(st.integers(0, 3)) == 0 else ()
        key, value, time = draw(nullable), draw(nullable), draw(times)
        count = draw(st.sampled_from([1, 2, 15, 16, 17, 40, 80]))
        step = draw(st.sampled_from([0, 0, 1, 3]))
        rows += [(key, value, headers, time + step * index) for index in range(count)]
    return rows


def built(rows: list[Row], codec: Codec, base_offset: int = 0, deltas: list[int] | None = None) -> bytes:
    keys, values, headers, times_ms = (list(column) for column in zip(*rows, strict=True))
    return build_batch(
        values,
        keys=keys if any(key is not None for key in keys) else None,
        headers=headers if any(headers) else None,
        timestamps_ms=times_ms,
        codec=codec,
        base_offset=base_offset,
        offset_deltas=deltas,
    )


class DumbDecoder:
    """One record after the other, one byte after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        zigzag = shift = 0
        while True:
            byte = self.take(1)[0]
            zigzag |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= 70:
                raise CorruptMessageError("varint")
        if zigzag >= 1 << 64:
            raise CorruptMessageError("varint")
        return -(zigzag + 1) // 2 if zigzag % 2 else zigzag // 2

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise CorruptMessageError("end")
        self.at += size
        return self.data[self.at - size : self.at]

    def field(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.take(size)

    def record(self, header: BatchHeader) -> Record:
        size = self.number()
        end = self.at + size
        self.take(1)
        time, delta = header.base_timestamp_ms + self.number(), self.number()
        if header.is_log_append_time:
            time = header.max_timestamp_ms
        key, value = self.field(), self.field()
        headers = []
        count = self.number()
        if count < 0:
            raise CorruptMessageError("headers")
        for _ in range(count):
            name = self.field()
            try:
                headers.append(((name or b"").decode(), self.field()))
            except UnicodeDecodeError as error:
                raise CorruptMessageError("name") from error
            if name is None:
                raise CorruptMessageError("name")
        if self.at != end or not -(1 << 63) <= time < 1 << 63:
            raise CorruptMessageError("record")
        return Record(header.base_offset + delta, time, int(header.is_log_append_time), key, value, tuple(headers))


def dumb_records(data: bytes) -> list[Record]:
    """The records that `read_records` should find in a buffer of one batch."""
    header = read_header(data)
    if header.is_control or not header.record_count:
        return []
    decoder = DumbDecoder(decompress(header.codec, data[HEADER_BYTES : header.size_bytes], 1 << 26))
    if header.record_count > len(decoder.data):
        raise CorruptMessageError("count")
    records = [decoder.record(header) for _ in range(header.record_count)]
    offsets = [header.base_offset - 1, *(record.offset for record in records), header.last_offset + 1]
    if decoder.at != len(decoder.data) or any(b <= a for a, b in pairwise(offsets)):
        raise CorruptMessageError("offsets")
    return records


def arrow_records(data: bytes, **options: bool) -> list[Record]:
    columns = to_arrow_columns(data, include_headers=True, **options)
    assert columns.headers is not None
    headers = [
        tuple((item["key"], item["value"]) for item in row) if row else () for row in columns.headers.to_pylist()
    ]
    rows = zip(
        columns.offsets.tolist(),
        columns.timestamps_ms.tolist(),
        columns.timestamp_types.tolist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        headers,
        strict=True,
    )
    return list(map(Record._make, rows))


def assert_judged_alike(batch: bytes) -> None:
    """The fast ways find what the dumb one finds: the same records, or damage."""
    try:
        expected = dumb_records(batch)
    except CorruptMessageError:
        expected = None
    for read in (read_records, arrow_records):
        try:
            found = read(batch)  # type: ignore[operator]
        except CorruptMessageError:
            found = None
        assert found == expected


@few
@given(row_lists(), st.sampled_from(Codec), st.integers(0, 1 << 40))
def test_what_is_built_comes_back_by_every_way(rows: list[Row], codec: Codec, base_offset: int) -> None:
    expected = [
        Record(base_offset + index, time, 0, key, value, headers)
        for index, (key, value, headers, time) in enumerate(rows)
    ]

    data = built(rows, codec, base_offset)

    assert dumb_records(data) == expected
    assert read_records(data) == expected
    assert arrow_records(data) == expected


@few
@given(row_lists(), st.data())
def test_sparse_offsets_come_back_by_every_way(rows: list[Row], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, 5000]), min_size=len(rows), max_size=len(rows)))
    deltas = (np.cumsum(gaps) - 1).tolist()

    batch = built(rows, Codec.NONE, 5, deltas)

    assert [record.offset for record in read_records(batch)] == [5 + delta for delta in deltas]
    assert dumb_records(batch) == read_records(batch) == arrow_records(batch)


@few
@given(row_lists(with_headers=False), st.sampled_from(Codec), st.booleans())
def test_arrow_encodes_the_very_bytes_of_the_plain_builder(rows: list[Row], codec: Codec, one_time: bool) -> None:
    keys, values, _, times_ms = (list(column) for column in zip(*rows, strict=True))
    stamps = times_ms[0] if one_time else times_ms

    encoded = build_batch_from_arrow(
        pa.array(values, pa.binary()), keys=pa.array(keys, pa.binary()), timestamps_ms=stamps, codec=codec
    )

    assert encoded == build_batch(values, keys=keys, timestamps_ms=stamps, codec=codec)


@few
@given(st.lists(row_lists(), min_size=1, max_size=4), st.data())
def test_a_range_of_offsets_is_that_part_of_everything(parts: list[list[Row]], data: st.DataObject) -> None:
    buffer, next_offset = b"", 0
    for rows in parts:
        buffer += built(rows, data.draw(st.sampled_from(Codec)), next_offset)
        next_offset += len(rows)
    low = data.draw(st.integers(0, next_offset))
    high = data.draw(st.none() | st.integers(0, next_offset))

    everything = read_records(buffer)

    assert [record.offset for record in everything] == list(range(next_offset))
    part = [r for r in everything if low <= r.offset and (high is None or r.offset < high)]
    assert read_records(buffer, from_offset=low, to_offset=high) == part
    assert to_arrow_columns(buffer, from_offset=low, to_offset=high).values.to_pylist() == [r.value for r in part]


@settings(max_examples=10, derandomize=True, deadline=None, database=None)
@given(st.lists(st.lists(st.binary(max_size=9), min_size=1, max_size=3), min_size=1, max_size=3))
def test_headers_of_every_prefix_are_those_of_its_whole_batches(parts: list[list[bytes]]) -> None:
    batches = [build_batch(values, timestamps_ms=0) for values in parts]
    whole = b"".join(batches)
    ends = np.cumsum([len(batch) for batch in batches]).tolist()

    for size in range(len(whole) + 1):
        found = [at + header.size_bytes for at, header in iter_headers(whole[:size])]
        assert found == [end for end in ends if end <= size]
        assert len(read_records(whole[:size])) == sum(len(part) for part in parts[: len(found)])


def dumb_buffer(data: bytes) -> list[Record]:
    """The records of a fetched buffer: every whole batch, one byte after the other; the rest is left."""
    records: list[Record] = []
    while len(data) >= HEADER_BYTES:
        size = 12 + int.from_bytes(data[8:12], "big", signed=True)
        if data[16] != 2 or size < HEADER_BYTES:
            raise CorruptMessageError("header")
        if size > len(data):
            break
        records += dumb_records(data[:size])
        data = data[size:]
    return records


def found_by(read: Callable[[bytes], list[Record]], data: bytes) -> list[Record] | None:
    """None for damage."""
    try:
        return read(data)
    except CorruptMessageError:
        return None


@settings(max_examples=6, derandomize=True, deadline=None, database=None)
@given(st.lists(st.tuples(row_lists(), st.sampled_from(Codec)), min_size=1, max_size=3), st.integers(1, 9))
def test_a_buffer_fed_byte_by_byte_is_read_as_the_dumb_one_reads_it(
    parts: list[tuple[list[Row], Codec]], first_size: int
) -> None:
    whole, next_offset = b"", 0
    for rows, codec in parts:
        short = [(key and key[:9], value and value[:9], headers, time) for key, value, headers, time in rows[:20]]
        whole += built(short, codec, next_offset)
        next_offset += len(short)

    growing = bytearray()
    expected, whole_batches = [], -1
    for byte in whole:
        growing.append(byte)
        data = bytes(growing)
        found = len(list(iter_headers(data)))
        if found != whole_batches:  # between two batches the dumb one would say the same again
            whole_batches, expected = found, dumb_buffer(data)
        assert read_records(data) == expected
        if len(data) % first_size == 0:
            assert arrow_records(data) == expected
    assert len(expected) == next_offset


@few
@given(row_lists(), st.sampled_from(Codec), st.binary(max_size=150) | st.binary(min_size=61, max_size=61))
def test_trailing_bytes_are_left_or_judged_as_the_dumb_one_judges_them(
    rows: list[Row], codec: Codec, trailing: bytes
) -> None:
    data = built(rows, codec) + trailing
    expected = found_by(dumb_buffer, data)

    assert found_by(read_records, data) == found_by(arrow_records, data) == expected
    if len(trailing) < HEADER_BYTES:
        assert expected == dumb_records(built(rows, codec))


@few
@given(row_lists(), st.sampled_from(Codec), st.data())
def test_mutated_batches_never_show_a_wrong_record(rows: list[Row], codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(built(rows, codec))
    expected = read_records(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(8, len(batch) - 1))] ^= data.draw(st.integers(1, 255))

    for read in (read_records, arrow_records):
        with suppress(*TYPED):
            # A length that grew makes the batch partial: then there is no record. A changed epoch is no damage.
            assert read(bytes(batch)) in ([], expected)  # type: ignore[operator]


@few
@given(row_lists(), st.data())
def test_mutated_bodies_with_a_right_checksum_are_judged_alike_by_every_way(
    rows: list[Row], data: st.DataObject
) -> None:
    batch = bytearray(built(rows, Codec.NONE))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, min(len(batch) - 1, HEADER_BYTES + 400)))
        batch[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))

    assert_judged_alike(pack_batch(read_header(batch), bytes(batch[HEADER_BYTES:])))


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("value", [None, b"v" * 6, b"v" * 70])
def test_every_byte_around_the_fields_of_a_record_within_a_run_counts(key: bytes | None, value: bytes | None) -> None:
    count, odd_one = 90, 70
    batch = built([(key, value, (), 7 * index) for index in range(count)], Codec.NONE)
    end = len(batch) - HEADER_BYTES
    decoder = DumbDecoder(batch[HEADER_BYTES:])
    for _ in range(odd_one):
        decoder.take(decoder.number())
    start, size = HEADER_BYTES + decoder.at, decoder.number()
    after = HEADER_BYTES + decoder.at + size
    assert after < HEADER_BYTES + end

    for at in (*range(start, start + 12), after - 2, after - 1, after):
        for byte in (0, 1, 2, 3, 4, 0x0C, 0x0E, 0x7F, 0x80, 0x81, 0x8C, 0xFF, batch[at] ^ 2, batch[at] ^ 4):
            damaged = bytearray(batch)
            damaged[at] = byte
            assert_judged_alike(pack_batch(read_header(damaged), bytes(damaged[HEADER_BYTES:])))


def test_a_record_of_the_same_size_but_other_fields_within_a_run_keeps_its_own() -> None:
    # The odd one's value is shorter by what its header takes, and its last byte is 0, as if it had no headers.
    rows: list[Row] = [(None, b"0123456789", (), 0)] * 90
    rows[70] = (None, b"0123", (("n", b"12\0"),), 0)
    batch = built(rows, Codec.NONE)

    assert read_records(batch) == dumb_records(batch) == arrow_records(batch)


def test_long_forms_of_small_numbers_are_read_by_every_way() -> None:
    # length 8, attributes, time 0 and offset in two bytes where one would do, key null, value b"v", no headers
    body = b"".join(bytes([0x12, 0, 0x80, 0, 0x80 | 2 * index, 0, 1, 2, 0x76, 0]) for index in range(40))
    header = read_header(build_batch([b"v"] * 40, timestamps_ms=5))
    batch = pack_batch(header, body)

    assert dumb_records(batch) == [Record(index, 5, 0, None, b"v", ()) for index in range(40)]
    assert read_records(batch) == dumb_records(batch) == arrow_records(batch)


@few
@given(row_lists(), st.sampled_from(Codec), st.data())
def test_mutated_batches_stay_typed_when_nobody_checks_the_checksum(
    rows: list[Row], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(built(rows, codec))
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))

    with suppress(*TYPED):
        read_columns(bytes(batch), check_crc=False, max_decompressed_bytes=1 << 22)
    with suppress(*TYPED):
        to_arrow_columns(bytes(batch), check_crc=False, max_decompressed_bytes=1 << 22, include_headers=True)


@few
@given(st.binary(max_size=300))
def test_any_bytes_at_all_stay_typed(data: bytes) -> None:
    for read in (read_columns, to_arrow_columns):
        with suppress(*TYPED):  # any other exception fails the test
            assert len(read(data).values) <= len(data)  # type: ignore[operator]
    for codec in Codec:
        with suppress(*TYPED):
            assert len(decompress(codec, data, 1 << 16)) <= 1 << 16
