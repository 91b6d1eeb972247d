"""Arrow columns: nulls, ranges, control batches, headers, times, and the kinds of arrays that the encoder takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError
from penstock.record.arrow import build_batch_from_arrow, to_arrow_columns
from penstock.record.batch import read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import TooLargeTogetherError, read_columns

VALUES = [b"one", None, b"", b"four" * 40]
KEYS = [None, b"k", b"", None]


def test_nulls_stay_null_and_empty_stays_empty() -> None:
    columns = to_arrow_columns(build_batch(VALUES, keys=KEYS, timestamps_ms=[3, 1, 2, 9], base_offset=7))

    assert columns.values.to_pylist() == VALUES
    assert columns.keys.to_pylist() == KEYS
    assert (columns.values.type, columns.keys.type) == (pa.binary(), pa.binary())
    assert columns.offsets.tolist() == [7, 8, 9, 10]
    assert columns.timestamps_ms.tolist() == [3, 1, 2, 9]
    assert (columns.offsets.dtype, columns.timestamps_ms.dtype) == (np.int64, np.int64)
    assert (columns.timestamp_types.tolist(), columns.timestamp_types.dtype) == ([0] * 4, np.int32)
    assert columns.headers is None


def test_nothing_fetched_is_empty_columns_of_the_right_types() -> None:
    columns = to_arrow_columns(b"", include_headers=True)

    assert (len(columns), columns.values.type, columns.keys.type) == (0, pa.binary(), pa.binary())
    assert columns.headers is not None and len(columns.headers) == 0


def test_batches_of_all_codecs_and_times_come_as_one() -> None:
    data = b"".join(
        build_batch(VALUES, timestamps_ms=codec, codec=codec, base_offset=10 * codec, is_log_append_time=codec == 2)
        for codec in Codec
    )

    columns = to_arrow_columns(data)

    assert columns.values.to_pylist() == VALUES * 5
    assert columns.offsets.tolist() == [10 * codec + row for codec in range(5) for row in range(4)]
    assert columns.timestamps_ms.tolist() == [codec for codec in range(5) for _ in range(4)]
    assert columns.timestamp_types.tolist() == [int(codec == 2) for codec in range(5) for _ in range(4)]


def test_batches_that_have_too_many_bytes_together_are_refused_at_the_one_too_many() -> None:
    batches = [build_batch([bytes(100)], timestamps_ms=0, base_offset=n, codec=Codec.ZSTD) for n in range(3)]
    data = b"".join(batches)
    with pytest.raises(TooLargeTogetherError) as caught:
        to_arrow_columns(data, max_unpacked_bytes=250)
    assert caught.value.at == len(batches[0]) + len(batches[1])
    assert len(to_arrow_columns(data[: caught.value.at], max_unpacked_bytes=250)) == 2
    assert len(to_arrow_columns(batches[0], max_unpacked_bytes=1)) == 1, "one batch is always read"


def test_range_of_offsets_is_respected_and_control_batches_never_show() -> None:
    data = b"".join(
        build_batch([b"%d" % first] * 10, timestamps_ms=0, base_offset=first, is_control=first == 10)
        for first in (0, 10, 20)
    )

    columns = to_arrow_columns(data, from_offset=8, to_offset=22)

    assert columns.offsets.tolist() == [8, 9, 20, 21]
    assert columns.values.to_pylist() == [b"0", b"0", b"20", b"20"]


def test_headers_come_where_wanted_and_are_skipped_where_not() -> None:
    headers = [(("a", b"1"), ("b", None)), (), (), (("c", b""),)]
    data = build_batch(VALUES, headers=headers, timestamps_ms=0)

    wanted, unwanted = to_arrow_columns(data, include_headers=True), to_arrow_columns(data)

    assert wanted.headers is not None
    assert wanted.headers.to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        None,
        [{"key": "c", "value": b""}],
    ]
    assert unwanted.headers is None
    assert unwanted.values.to_pylist() == wanted.values.to_pylist() == VALUES


def test_compacted_offsets_are_kept() -> None:
    data = build_batch([b"v"] * 3, timestamps_ms=0, base_offset=5, offset_deltas=[0, 7, 9000])

    assert to_arrow_columns(data).offsets.tolist() == [5, 12, 9005]


def test_wrong_checksum_is_corrupt() -> None:
    data = bytearray(build_batch(VALUES, timestamps_ms=0))
    data[-1] ^= 1

    with pytest.raises(CorruptMessageError, match="checksum"):
        to_arrow_columns(data)


def test_bomb_is_refused() -> None:
    data = build_batch([bytes(100_000)], timestamps_ms=0, codec=Codec.LZ4)

    with pytest.raises(MessageTooLargeError):
        to_arrow_columns(data, max_decompressed_bytes=1000)


def test_times_too_wide_for_the_vectorised_way_come_from_the_plain_reader() -> None:
    times = [-(1 << 62), (1 << 62) - 1, 0]

    data = build_batch([b"v"] * 3, timestamps_ms=times)

    assert to_arrow_columns(data, include_headers=True).timestamps_ms.tolist() == times
    assert data == build_batch_from_arrow(pa.array([b"v"] * 3), timestamps_ms=np.array(times))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "c"]),
        pa.array(["a", None, "c"], pa.large_string()),
        pa.array([b"a", None, b"c"], pa.large_binary()),
        pa.array([b"a", None, b"c"], pa.binary(1)),
        pa.array([b"x", b"a", None, b"c", b"x"])[1:4],
        pa.chunked_array([[b"a"], [None, b"c"]]),
        pa.chunked_array([["a"], [None, "c"]]),
    ],
)
def test_every_kind_of_binary_or_string_array_encodes(values: pa.Array) -> None:
    assert build_batch_from_arrow(values, timestamps_ms=5) == build_batch([b"a", None, b"c"], timestamps_ms=5)


@pytest.mark.parametrize(
    "times",
    [
        [1000, 2000],
        np.array([1000, 2000]),
        pa.array([1000, 2000]),
        pa.array([1_000_999, 2_000_000], pa.timestamp("us", "UTC")),
        pa.chunked_array([[1000], [2000]]),
    ],
)
def test_times_may_be_numbers_or_timestamps(times: object) -> None:
    data = build_batch_from_arrow(pa.array([b"a", b"b"]), timestamps_ms=times)

    assert read_columns(data).timestamps_ms == [1000, 2000]


def test_all_null_values_encode() -> None:
    data = build_batch_from_arrow(pa.nulls(2), keys=pa.array([b"a", b"b"]), timestamps_ms=0)

    assert data == build_batch([None, None], keys=[b"a", b"b"], timestamps_ms=0)


def test_header_fields_are_those_of_the_plain_builder() -> None:
    header = read_header(
        build_batch_from_arrow(pa.array([b"a"]), timestamps_ms=1, producer_id=9, producer_epoch=1, base_sequence=4)
    )

    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"keys": pa.array([b"k"])}, "1 keys"),
        ({"timestamps_ms": [1]}, "1 timestamps_ms"),
        ({"timestamps_ms": pa.array([1, None])}, "null"),
        ({"offset_deltas": [1, 1]}, "ascending"),
        ({"keys": pa.array([[1], [2]])}, "not binary"),
        ({"timestamps_ms": [-(1 << 63), (1 << 63) - 1]}, "further apart"),
    ],
)
def test_columns_that_make_no_batch_are_refused(columns: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidRecordError, match=why):
        build_batch_from_arrow(pa.array([b"a", b"b"]), **{"timestamps_ms": 0, **columns})


def test_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidRecordError):
        build_batch_from_arrow(pa.array([], pa.binary()), timestamps_ms=0)
