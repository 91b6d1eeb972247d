"""Other clients' record code and ours read each other's batches: every codec, every kind of record, every bit."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder

from penstock.record.arrow import build_batch_from_arrow, to_arrow_columns
from penstock.record.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    pack_batch,
    read_header,
    set_max_timestamp_log_append_time,
    set_placement,
    verify_crc,
)
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import Record, read_columns, read_records
from penstock.record.rewrite import emptied, rewritten
from penstock.record.row_scan import scan_rows
from tests.support.foreign_records import BUILDERS, READERS, WALKERS, batches_of, built, rows_of

COUNT = 300
T0_MS = 1_700_000_000_000
PRODUCER = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 11}


def row(number: int, key: bytes | None, value: bytes | None, headers: Any = (), step_ms: int = 37) -> Record:
    return Record(number, T0_MS + number * step_ms % 91, 0, key, value, headers)


SHAPES: dict[str, list[Record]] = {
    "all kinds together": [
        row(
            n,
            None if n % 3 == 0 else b"key-%d" % n,
            None if n % 7 == 0 else b"value of a record " * (n % 40),
            (("trace", b"%d" % n), ("null", None), ("näme", b""), ("trace", b"again")) if n % 5 == 0 else (),
        )
        for n in range(COUNT)
    ],
    "no keys, no headers, one time": [
        row(n, None, b"value %03d, all of one size" % n, step_ms=0) for n in range(COUNT)
    ],
    "keys of one size": [row(n, b"%05d" % n, b"value %03d of one size" % n) for n in range(COUNT)],
    "only tombstones": [row(n, b"a key that is deleted %d" % n, None) for n in range(COUNT)],
    "nothing but nulls": [row(n, None, None, step_ms=0) for n in range(COUNT)],
    "headers on each": [row(n, b"k", b"v" * n, (("h", b"%d" % n),)) for n in range(COUNT)],
    "one large record": [row(0, b"", b"abcdefgh" * 50_000)],
}
ROWS = SHAPES["all kinds together"]


def ours(rows: list[Record], codec: Codec = Codec.NONE, **options: Any) -> bytes:
    keys, headers = [one.key for one in rows], [one.headers for one in rows]
    return build_batch(
        [one.value for one in rows],
        keys=None if set(keys) == {None} else keys,
        headers=headers if any(headers) else None,
        timestamps_ms=[one.timestamp_ms for one in rows],
        codec=codec,
        **options,
    )


def moved(rows: list[Record], base_offset: int, append_time_ms: int | None = None) -> list[Record]:
    """The same records as a log has them."""
    moved_rows = [one._replace(offset=base_offset + one.offset) for one in rows]
    if append_time_ms is None:
        return moved_rows
    return [one._replace(timestamp_ms=append_time_ms, timestamp_type=1) for one in moved_rows]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", READERS)
def test_they_read_ours(reader: str, codec: Codec, shape: str) -> None:
    batch = READERS[reader](ours(SHAPES[shape], codec, base_offset=500))

    assert batch.validate_crc()
    assert batch.compression_type == codec
    assert rows_of(batch) == moved(SHAPES[shape], 500)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder", BUILDERS)
def test_we_read_theirs(builder: str, codec: Codec, shape: str) -> None:
    data = built(builder, SHAPES[shape], codec)
    set_placement(data, 0, 900, 5)

    assert read_header(data).codec == codec
    assert read_records(data) == moved(SHAPES[shape], 900)
    columns = to_arrow_columns(data, include_headers=True)
    assert columns.offsets.tolist() == [900 + one.offset for one in SHAPES[shape]]
    assert columns.values.to_pylist() == [one.value for one in SHAPES[shape]]
    assert columns.keys.to_pylist() == [one.key for one in SHAPES[shape]]
    assert columns.timestamps_ms.tolist() == [one.timestamp_ms for one in SHAPES[shape]]
    assert columns.headers is not None
    headers = [tuple((h["key"], h["value"]) for h in found or ()) for found in columns.headers.to_pylist()]
    assert headers == [one.headers for one in SHAPES[shape]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("builder", BUILDERS)
def test_uncompressed_bytes_are_the_same_but_for_the_placement(builder: str, shape: str) -> None:
    theirs = built(builder, SHAPES[shape], Codec.NONE, **PRODUCER)

    assert ours(SHAPES[shape], **PRODUCER)[MAGIC_AT:] == theirs[MAGIC_AT:]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", READERS)
def test_they_see_our_producer_and_transaction_and_control_bits(reader: str, codec: Codec) -> None:
    commit = [Record(0, T0_MS, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 4), ())]
    batch = READERS[reader](ours(commit, codec, is_transactional=True, is_control=True, **PRODUCER))

    assert batch.validate_crc()
    assert (batch.is_transactional, batch.is_control_batch) == (True, True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 11)
    assert rows_of(batch) == commit
    plain = READERS[reader](ours(commit, codec))
    assert (plain.is_transactional, plain.is_control_batch, plain.producer_id) == (False, False, -1)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder", BUILDERS)
def test_we_see_their_producer_and_transaction_and_control_bits(builder: str, codec: Codec) -> None:
    theirs = built(builder, ROWS, codec, is_transactional=1, **PRODUCER)
    header = read_header(theirs)

    assert (header.is_transactional, header.is_control) == (True, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 11)
    control = pack_batch(header._replace(attributes=header.attributes | CONTROL_BIT), bytes(theirs[HEADER_BYTES:]))
    assert read_header(control).is_control and read_records(control) == []


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", READERS)
def test_all_take_append_time_for_the_time_of_every_record(reader: str, codec: Codec) -> None:
    data = bytearray(ours(ROWS, codec))
    set_max_timestamp_log_append_time(data, 0, 1_800_000_000_000)

    batch = READERS[reader](bytes(data))

    assert batch.validate_crc() and batch.timestamp_type == 1
    assert rows_of(batch) == read_records(data) == moved(ROWS, 0, 1_800_000_000_000)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", READERS)
def test_a_delete_horizon_changes_no_record(reader: str, codec: Codec) -> None:
    data = ours(ROWS, codec)
    header = read_header(data)
    body = ours(ROWS)
    rows = scan_rows(body, HEADER_BYTES, len(body), COUNT, COUNT - 1)

    stamped = rewritten(header, body, rows, [True] * COUNT, T0_MS + 86_400_000)

    assert read_header(stamped).attributes & DELETE_HORIZON_BIT
    batch = READERS[reader](stamped)
    assert batch.validate_crc() and batch.compression_type == codec
    assert rows_of(batch) == read_records(stamped) == ROWS


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("walker", WALKERS)
def test_they_walk_over_batches_that_were_emptied_or_thinned_out(walker: str, codec: Codec) -> None:
    first, third = ours(ROWS, codec), bytearray(ours(ROWS, codec))
    set_placement(third, 0, 2 * COUNT, 1)
    body = ours(ROWS)
    rows = scan_rows(body, HEADER_BYTES, len(body), COUNT, COUNT - 1)
    empty = emptied(read_header(first)._replace(base_offset=COUNT, attributes=codec | TRANSACTIONAL_BIT))
    thin = rewritten(read_header(third), body, rows, [n % 50 == 7 for n in range(COUNT)], None)

    kept = moved([one for one in ROWS if one.offset % 50 == 7], 2 * COUNT)
    buffer = first + empty + thin

    batches = batches_of(walker, buffer)

    assert [(batch.base_offset, batch.next_offset) for batch in batches] == [(0, 300), (300, 600), (600, 900)]
    assert [rows_of(batch) for batch in batches] == [ROWS, [], kept]
    assert read_records(buffer) == ROWS + kept
    assert to_arrow_columns(buffer).values.to_pylist() == [one.value for one in ROWS + kept]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("walker", WALKERS)
def test_they_walk_a_buffer_of_our_batches_from_arrow_too(walker: str, codec: Codec) -> None:
    pa = pytest.importorskip("pyarrow")
    values, keys = [one.value for one in ROWS], [one.key for one in ROWS]
    times = [one.timestamp_ms for one in ROWS]
    encoded = bytearray(build_batch_from_arrow(pa.array(values), keys=pa.array(keys), timestamps_ms=times, codec=codec))
    set_placement(encoded, 0, COUNT, 1)

    rows = [one for batch in batches_of(walker, bytes(ours(ROWS, codec) + encoded)) for one in rows_of(batch)]

    assert [one.offset for one in rows] == list(range(2 * COUNT))
    assert [one.value for one in rows] == values * 2
    assert [one.key for one in rows] == keys * 2


@pytest.mark.parametrize("codec", Codec)
def test_we_read_what_aiokafkas_producer_sends(codec: Codec) -> None:
    builder = BatchBuilder(1 << 30, int(codec))
    for one in ROWS:
        assert builder.append(timestamp=one.timestamp_ms, key=one.key, value=one.value) is not None

    columns = read_columns(builder._build())

    assert (columns.offsets, columns.timestamps_ms) == (range(COUNT), [one.timestamp_ms for one in ROWS])
    assert (columns.keys, columns.values) == ([one.key for one in ROWS], [one.value for one in ROWS])


@pytest.mark.parametrize("reader", READERS)
def test_they_see_our_checksum_fail_where_we_do(reader: str) -> None:
    data = bytearray(ours(ROWS))
    for at in range(HEADER_BYTES, len(data), 9973):
        data[at] ^= 1
        assert not READERS[reader](bytes(data)).validate_crc()
        assert not verify_crc(data, 0, read_header(data))
        data[at] ^= 1
