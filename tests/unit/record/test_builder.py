"""The builder: what the header says, the columns it refuses, and the bound of a record's size."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRecordError
from penstock.record.batch import HEADER_BYTES, read_header, verify_crc
from penstock.record.builder import Headers, build_batch, record_size_bytes_upper
from penstock.record.codecs import Codec
from penstock.record.reader import read_columns, read_records


def test_header_has_count_offsets_times_and_producer() -> None:
    data = build_batch(
        [b"a", None, b"c"],
        timestamps_ms=[5, 9, 7],
        base_offset=100,
        leader_epoch=4,
        producer_id=1 << 40,
        producer_epoch=3,
        base_sequence=12,
    )

    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.record_count, header.leader_epoch) == (100, 102, 3, 4)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (5, 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 3, 12)
    assert header.size_bytes == len(data)
    assert verify_crc(data, 0, header)


def test_without_options_nobody_produced_it_and_no_epoch_is_known() -> None:
    header = read_header(build_batch([b"a"], timestamps_ms=0))

    assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1, -1)


@pytest.mark.parametrize(
    "columns", [{"keys": [b"k"]}, {"headers": [()]}, {"timestamps_ms": [1]}, {"offset_deltas": [0]}]
)
def test_columns_of_other_lengths_are_refused_by_name(columns: dict[str, object]) -> None:
    with pytest.raises(InvalidRecordError, match=next(iter(columns))):
        build_batch([b"a", b"b"], **{"timestamps_ms": 0, **columns})  # type: ignore[arg-type]


def test_empty_batch_is_refused_unless_compaction_left_it() -> None:
    with pytest.raises(InvalidRecordError):
        build_batch([], timestamps_ms=0)

    header = read_header(build_batch([], timestamps_ms=[], offset_deltas=[], last_offset_delta=4, base_offset=10))
    assert (header.record_count, header.next_offset) == (0, 15)


def test_compacted_batch_keeps_its_offsets_and_its_end() -> None:
    data = build_batch([b"a", b"b"], timestamps_ms=0, base_offset=10, offset_deltas=[1, 70], last_offset_delta=99)

    assert list(read_columns(data).offsets) == [11, 80]
    assert read_header(data).next_offset == 110


@pytest.mark.parametrize("deltas", [[1, 1], [2, 1], [-1, 0]])
def test_offset_deltas_that_do_not_ascend_are_refused(deltas: list[int]) -> None:
    with pytest.raises(InvalidRecordError):
        build_batch([b"a", b"b"], timestamps_ms=0, offset_deltas=deltas)


def test_last_offset_delta_below_a_record_is_refused() -> None:
    with pytest.raises(InvalidRecordError):
        build_batch([b"a", b"b"], timestamps_ms=0, last_offset_delta=0)


@pytest.mark.parametrize("value", [None, b"", b"v" * 63, b"v" * 64, b"v" * 9000])
@pytest.mark.parametrize("key", [None, b"", b"k" * 100])
@pytest.mark.parametrize("headers", [(), (("name", None), ("näme", b"v" * 70))])
def test_upper_bound_of_a_record_holds(value: bytes | None, key: bytes | None, headers: Headers) -> None:
    data = build_batch([value], keys=[key], headers=[headers], timestamps_ms=1 << 62)

    bound = record_size_bytes_upper(-1 if value is None else len(value), -1 if key is None else len(key), headers)
    assert len(data) - HEADER_BYTES <= bound <= len(data) - HEADER_BYTES + 60


@pytest.mark.parametrize("codec", Codec)
def test_any_bytes_like_values_are_taken(codec: Codec) -> None:
    values = [bytearray(b"one"), memoryview(b"two")]

    data = build_batch(values, timestamps_ms=0, codec=codec)  # type: ignore[arg-type]

    assert [record.value for record in read_records(data)] == [b"one", b"two"]
