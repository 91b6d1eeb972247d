"""aiokafka's record code and ours read each other's batches: its compiled code and its plain one, all codecs."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import (
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
    _DefaultRecordBatchPy,
)
from aiokafka.record.memory_records import MemoryRecords

from penstock.record.arrow import build_batch_from_arrow, to_arrow_columns
from penstock.record.batch import (
    HEADER_BYTES,
    read_header,
    set_max_timestamp_log_append_time,
    set_placement,
    verify_crc,
)
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import Record, read_columns, read_records

COUNT = 300
KEYS = [None if row % 3 == 0 else b"key-%d" % row for row in range(COUNT)]
VALUES = [None if row % 7 == 0 else b"value of a record " * (row % 40) for row in range(COUNT)]
HEADERS = [(("trace", b"%d" % row), ("null", None), ("näme", b"")) if row % 5 == 0 else () for row in range(COUNT)]
TIMES = [1_700_000_000_000 + row * 37 % 91 for row in range(COUNT)]
READERS = [DefaultRecordBatch, _DefaultRecordBatchPy]
BUILDERS = [DefaultRecordBatchBuilder, _DefaultRecordBatchBuilderPy]


def their_rows(batch: Any) -> list[Record]:
    return [
        Record(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple((k, v) for k, v in r.headers))
        for r in batch
    ]


def expected_rows(base_offset: int = 0, append_time_ms: int | None = None) -> list[Record]:
    return [
        Record(
            base_offset + row,
            TIMES[row] if append_time_ms is None else append_time_ms,
            0 if append_time_ms is None else 1,
            KEYS[row],
            VALUES[row],
            HEADERS[row],
        )
        for row in range(COUNT)
    ]


def our_batch(codec: Codec = Codec.NONE, **options: Any) -> bytes:
    return build_batch(VALUES, keys=KEYS, headers=HEADERS, timestamps_ms=TIMES, codec=codec, **options)


def their_batch(builder_class: Any, codec: Codec, is_transactional: bool = False) -> bytearray:
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
        is_transactional=int(is_transactional),
        producer_id=77,
        producer_epoch=3,
        base_sequence=11,
        batch_size=1 << 30,
    )
    for row in range(COUNT):
        assert builder.append(row, TIMES[row], KEYS[row], VALUES[row], list(HEADERS[row])) is not None
    return bytearray(builder.build())


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", READERS)
def test_they_read_ours(reader: Any, codec: Codec) -> None:
    batch = reader(our_batch(codec, base_offset=500))

    assert batch.validate_crc()
    assert batch.compression_type == codec
    assert their_rows(batch) == expected_rows(500)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder", BUILDERS)
def test_we_read_theirs(builder: Any, codec: Codec) -> None:
    data = their_batch(builder, codec)
    set_placement(data, 0, 900, 5)

    assert read_header(data).codec == codec
    assert read_records(data) == expected_rows(900)
    columns = to_arrow_columns(data)
    assert columns.values.to_pylist() == VALUES
    assert columns.keys.to_pylist() == KEYS
    assert columns.timestamps_ms.tolist() == TIMES


@pytest.mark.parametrize("builder", BUILDERS)
def test_uncompressed_bytes_are_the_same(builder: Any) -> None:
    ours = our_batch(producer_id=77, producer_epoch=3, base_sequence=11)

    assert ours == their_batch(builder, Codec.NONE)


@pytest.mark.parametrize("reader", READERS)
def test_they_see_our_producer_and_transaction_and_control_bits(reader: Any) -> None:
    batch = reader(
        our_batch(is_transactional=True, is_control=True, producer_id=77, producer_epoch=3, base_sequence=11)
    )

    assert (batch.is_transactional, batch.is_control_batch) == (True, True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 11)


@pytest.mark.parametrize("builder", BUILDERS)
def test_we_see_their_producer_and_transaction_bit(builder: Any) -> None:
    header = read_header(their_batch(builder, Codec.NONE, is_transactional=True))

    assert (header.is_transactional, header.is_control) == (True, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 11)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("reader", READERS)
def test_both_take_append_time_for_the_time_of_every_record(reader: Any, codec: Codec) -> None:
    data = their_batch(DefaultRecordBatchBuilder, codec)
    set_max_timestamp_log_append_time(data, 0, 1_800_000_000_000)

    batch = reader(bytes(data))

    assert batch.validate_crc()
    assert their_rows(batch) == read_records(data) == expected_rows(append_time_ms=1_800_000_000_000)


@pytest.mark.parametrize("codec", Codec)
def test_they_walk_a_buffer_of_our_batches_from_arrow_too(codec: Codec) -> None:
    pa = pytest.importorskip("pyarrow")
    encoded = bytearray(build_batch_from_arrow(pa.array(VALUES), keys=pa.array(KEYS), timestamps_ms=TIMES, codec=codec))
    set_placement(encoded, 0, COUNT, 1)
    records = MemoryRecords(bytes(our_batch(codec) + encoded))

    rows: list[Record] = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        rows += their_rows(batch)

    assert [row.offset for row in rows] == list(range(2 * COUNT))
    assert [row.value for row in rows] == VALUES * 2
    assert [row.key for row in rows] == KEYS * 2


@pytest.mark.parametrize("codec", Codec)
def test_we_read_what_their_producer_sends(codec: Codec) -> None:
    builder = BatchBuilder(1 << 30, int(codec))
    for row in range(COUNT):
        assert builder.append(timestamp=TIMES[row], key=KEYS[row], value=VALUES[row]) is not None

    columns = read_columns(builder._build())

    assert (columns.offsets, columns.timestamps_ms) == (range(COUNT), TIMES)
    assert (columns.keys, columns.values, columns.headers) == (KEYS, VALUES, None)


def test_they_see_our_checksum_fail_where_we_do() -> None:
    data = bytearray(our_batch())
    for at in range(HEADER_BYTES, len(data), 997):
        data[at] ^= 1
        assert not DefaultRecordBatch(bytes(data)).validate_crc()
        assert not verify_crc(data, 0, read_header(data))
        data[at] ^= 1
