"""The reader: which records of a fetched buffer come, in which form, and which damage it names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.record.arrow import to_arrow_columns
from penstock.record.batch import ATTRIBUTES_AT, HEADER_BYTES, BatchHeader, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import NO_RECORDS, Record, read_columns, read_records

Way = Callable[[bytes], object]
WAYS: list[Way] = [read_columns, partial(to_arrow_columns, include_headers=True)]


def batch_of(first: int, count: int, **options: object) -> bytes:
    values = [b"%d" % offset for offset in range(first, first + count)]
    return build_batch(values, timestamps_ms=1000, base_offset=first, **options)  # type: ignore[arg-type]


def batch_with_body(body: bytes, count: int = 1, last_offset_delta: int = 0, base_timestamp_ms: int = 0) -> bytes:
    header = BatchHeader(0, 0, -1, 2, 0, 0, last_offset_delta, base_timestamp_ms, base_timestamp_ms, -1, -1, -1, count)
    return pack_batch(header, body)


def test_columns_are_parallel_and_cheap_where_nothing_varies() -> None:
    columns = read_columns(batch_of(7, 3) + batch_of(10, 2))

    assert columns.offsets == range(7, 12)
    assert columns.values == [b"7", b"8", b"9", b"10", b"11"]
    assert (columns.keys, columns.headers) == (None, None)
    assert (list(columns.timestamps_ms), list(columns.timestamp_types)) == ([1000] * 5, [0] * 5)


def test_records_are_the_columns_as_rows() -> None:
    data = build_batch(
        [b"v", None], keys=[None, b"k"], headers=[[("h", b"1"), ("n", None)], []], timestamps_ms=[3, 2], base_offset=4
    )

    assert read_records(data) == [
        Record(4, 3, 0, None, b"v", (("h", b"1"), ("n", None))),
        Record(5, 2, 0, b"k", None, ()),
    ]


def test_empty_buffer_has_no_records() -> None:
    assert read_columns(b"") == NO_RECORDS
    assert read_records(b"") == []


@pytest.mark.parametrize("cut", [1, HEADER_BYTES + 1, 30])
def test_partial_last_batch_is_left_for_the_next_fetch(cut: int) -> None:
    assert read_columns(batch_of(0, 2) + batch_of(2, 9)[:-cut]).offsets == range(2)


def test_range_of_offsets_cuts_batches_at_both_ends() -> None:
    data = batch_of(0, 10) + batch_of(10, 10) + batch_of(20, 10)

    columns = read_columns(data, from_offset=8, to_offset=22)

    assert list(columns.offsets) == list(range(8, 22))
    assert columns.values == [b"%d" % offset for offset in range(8, 22)]


def test_range_of_offsets_cuts_compacted_batches_too() -> None:
    data = build_batch(
        [b"a", b"b", b"c"], keys=[b"1", b"2", b"3"], headers=[[("h", b"")], [], []], timestamps_ms=[1, 2, 3],
        offset_deltas=[0, 5, 9],
    )  # fmt: skip

    assert read_records(data, from_offset=1, to_offset=9) == [Record(5, 2, 0, b"2", b"b", ())]


def test_batch_outside_the_range_is_not_even_checked() -> None:
    damaged = bytearray(batch_of(0, 10))
    damaged[-1] ^= 1

    assert read_columns(bytes(damaged) + batch_of(10, 1), from_offset=10).offsets == range(10, 11)


def test_control_batches_never_show() -> None:
    data = batch_of(0, 1) + batch_of(1, 1, is_control=True, is_transactional=True) + batch_of(2, 1)

    assert list(read_columns(data).offsets) == [0, 2]


def test_batches_that_compaction_emptied_are_passed_over() -> None:
    empty = build_batch([], timestamps_ms=[], last_offset_delta=2, base_offset=1)

    assert list(read_columns(batch_of(0, 1) + empty + batch_of(4, 1)).offsets) == [0, 4]


def test_append_time_is_the_time_of_every_record() -> None:
    data = build_batch([b"a", b"b"], timestamps_ms=[1, 9], is_log_append_time=True)

    columns = read_columns(data)
    assert (list(columns.timestamps_ms), list(columns.timestamp_types)) == ([9, 9], [1, 1])


def test_wrong_checksum_is_corrupt_and_names_the_place() -> None:
    damaged = bytearray(batch_of(5, 1))
    damaged[-2] ^= 1

    with pytest.raises(CorruptMessageError, match="the batch at offset 5 has a wrong checksum"):
        read_columns(damaged)
    assert read_columns(damaged, check_crc=False).values == [b"4"]


def test_bomb_is_refused() -> None:
    data = build_batch([bytes(100_000)], timestamps_ms=0, codec=Codec.ZSTD)

    with pytest.raises(MessageTooLargeError):
        read_columns(data, max_decompressed_bytes=50_000)


def test_unknown_codec_is_its_own_error() -> None:
    data = bytearray(batch_of(0, 1))
    data[ATTRIBUTES_AT + 1] |= 0x07

    with pytest.raises(UnsupportedCompressionTypeError):
        read_columns(data, check_crc=False)


@pytest.mark.parametrize(
    ("body", "count", "why"),
    [
        ("0c 00 00 00 01 01 00 00", 1, "left behind"),
        ("0e 00 00 00 01 02 76 00", 2, "has room for 1"),
        ("0c 00 00 00 01 02 76 00", 1, "its fields end"),
        ("0d 00 00 00 01 02 76 00", 1, "its length is wrong"),
        ("7e 00 00 00 01 02 76 00", 1, "its length is wrong"),
        ("0e 00 00 00 03 02 76 00", 1, "has the negative length -2"),
        ("0e 00 00 00 01 03 76 00", 1, "has the negative length -2"),
        ("0e 00 00 02 01 02 76 00", 1, "do not ascend"),
        ("0e 00 00 01 01 02 76 00", 1, "do not ascend"),
        ("0e 00 00 00 01 02 76 01", 1, "-1 headers"),
        ("0e 00 00 00 01 02 76 04", 1, "2 headers"),
        ("14 00 00 00 01 02 76 02 02 ff 01", 1, "UTF-8"),
        ("14 00 00 00 01 02 76 02 01 00 01", 1, "header's field"),
        ("0e 00 00 00 01 7e 76 00", 1, "reaches beyond"),
        ("0e 00 00 00 01 02 76 00 0e 00 00 00 01 02 76 00", 2, "do not ascend"),
        ("16 00 00 00 01 02 76 02 00 01 00 00", 1, "its fields end"),
    ],
)
@pytest.mark.parametrize("read", WAYS)
def test_damage_inside_a_batch_with_a_right_checksum_is_named(read: Way, body: str, count: int, why: str) -> None:
    with pytest.raises(CorruptMessageError, match=why):
        read(batch_with_body(bytes.fromhex(body), count))


@pytest.mark.parametrize("read", WAYS)
def test_timestamp_beyond_64_bits_is_corrupt(read: Way) -> None:
    with pytest.raises(CorruptMessageError, match="64 bits"):
        read(batch_with_body(bytes.fromhex("0e 00 02 00 01 02 76 00"), base_timestamp_ms=(1 << 63) - 1))


def test_null_length_in_a_long_form_is_still_null() -> None:
    data = batch_with_body(bytes.fromhex("10 00 00 00 8100 02 76 00"))

    assert read_records(data) == [Record(0, 0, 0, None, b"v", ())]


def test_offsets_beyond_64_bits_are_corrupt() -> None:
    data = bytearray(batch_of(0, 2))
    data[:8] = ((1 << 63) - 1).to_bytes(8, "big")

    with pytest.raises(CorruptMessageError, match="is out of range"):
        read_columns(data)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offset_deltas_of_every_width_are_dense(count: int) -> None:
    data = build_batch([b"v"] * count, timestamps_ms=0, base_offset=3)

    assert read_header(data).last_offset == count + 2
    assert read_columns(data).offsets == range(3, count + 3)
