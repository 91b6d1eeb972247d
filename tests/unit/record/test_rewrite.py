"""Rows of a batch: found without decoding, and taken out without touching the others."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, LOG_APPEND_TIME_BIT, BatchHeader, pack_batch, read_header, verify_crc
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import batch_body, read_records
from penstock.record.rewrite import emptied, rewritten
from penstock.record.row_scan import Rows, scan_rows

MAX_BYTES = 1 << 20
FIELDS = {"base_offset": 700, "leader_epoch": 4, "producer_id": 9, "producer_epoch": 1, "base_sequence": 5}


def scanned(data: bytes) -> tuple[BatchHeader, bytes, Rows]:
    header = read_header(data)
    body, start, end = batch_body(data, 0, header, MAX_BYTES)
    return header, body, scan_rows(body, start, end, header.record_count, header.last_offset_delta)


def some_batch(seed: int, codec: Codec = Codec.NONE, count: int = 60, **options: object) -> bytes:
    """Runs of equal records beside odd ones, null keys, tombstones, headers, times to and fro."""
    random = Random(seed)
    equal = random.random() < 0.5
    values = [None if random.random() < 0.2 else b"v" * (9 if equal else random.randrange(300)) for _ in range(count)]
    keys = [None if random.random() < 0.1 else b"k%03d" % random.randrange(40) for _ in range(count)]
    headers = None if equal else [(("a", b"1"), ("b", None)) if random.random() < 0.3 else () for _ in range(count)]
    times = [1_000_000 + random.randrange(-9000, 9000) for _ in range(count)]
    return build_batch(values, keys=keys, headers=headers, timestamps_ms=times, codec=codec, **{**FIELDS, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_the_scan_finds_what_the_reader_finds(seed: int) -> None:
    data = some_batch(seed, count=1 + seed * 7)
    header, body, rows = scanned(data)
    records = read_records(data)

    assert rows.keys == [record.key for record in records]
    assert [header.base_offset + delta for delta in rows.offset_deltas] == [record.offset for record in records]
    assert rows.tombstones == [row for row, record in enumerate(records) if record.value is None]
    assert (rows.bounds[0], rows.bounds[-1], len(rows.bounds)) == (HEADER_BYTES, len(body), len(records) + 1)


def test_a_run_of_equal_tombstones_is_seen() -> None:
    data = build_batch([None] * 100, keys=[b"%02d" % n for n in range(100)], timestamps_ms=5)

    assert scanned(data)[2].tombstones == list(range(100))


@pytest.mark.parametrize("seed", range(20))
def test_a_scan_of_mutated_records_ends_in_rows_or_a_typed_error(seed: int) -> None:
    random = Random(seed)
    data = bytearray(some_batch(seed))
    count = read_header(data).record_count
    for _ in range(200):
        mutated = bytearray(data)
        mutated[random.randrange(HEADER_BYTES, len(data))] = random.randrange(256)
        mutated = mutated[: random.randrange(HEADER_BYTES, len(data) + 1)] if random.random() < 0.3 else mutated
        with contextlib.suppress(CorruptMessageError):
            assert len(scan_rows(bytes(mutated), HEADER_BYTES, len(mutated), count, count - 1)) == count


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("horizon_ms", [None, 1, 1_700_000_000_000, (1 << 63) - 1])
def test_what_stays_is_what_it_was(codec: Codec, horizon_ms: int | None) -> None:
    for seed in range(5):
        data = some_batch(seed, codec)
        header, body, rows = scanned(data)
        keep = [Random(seed * 31 + row).random() < 0.4 for row in range(len(rows))]
        keep[7] = True
        kept = rewritten(header, body, rows, keep, horizon_ms)
        wanted = [record for record, stays in zip(read_records(data), keep, strict=True) if stays]

        assert read_records(kept) == wanted
        after = read_header(kept)
        assert verify_crc(kept, 0, after)
        assert (after.delete_horizon_ms, after.codec, after.next_offset) == (horizon_ms, codec, header.next_offset)
        assert after.max_timestamp_ms == max(record.timestamp_ms for record in wanted)
        same = ("base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "last_offset_delta")
        assert [getattr(after, name) for name in same] == [getattr(header, name) for name in same]


def test_records_that_stay_keep_their_bytes() -> None:
    data = some_batch(3)
    header, body, rows = scanned(data)
    kept = rewritten(header, body, rows, [row % 3 == 0 for row in range(len(rows))], None)

    records = [body[rows.bounds[row] : rows.bounds[row + 1]] for row in range(0, len(rows), 3)]
    assert kept[HEADER_BYTES:] == b"".join(records)


def test_a_horizon_comes_stays_and_goes_while_times_stay() -> None:
    data = some_batch(1)
    stamped = rewritten(*scanned(data), [True] * 60, 5_000_000)
    thinned = rewritten(*scanned(stamped), [row < 30 for row in range(60)], 5_000_000)
    cleared = rewritten(*scanned(thinned), [row < 20 for row in range(30)], None)

    assert read_records(stamped) == read_records(data)
    assert read_records(thinned) == read_records(data)[:30]
    assert read_records(cleared) == read_records(data)[:20]
    assert [read_header(batch).delete_horizon_ms for batch in (stamped, thinned, cleared)] == [5_000_000] * 2 + [None]
    assert read_header(cleared).base_timestamp_ms == read_records(cleared)[0].timestamp_ms


def test_the_time_of_the_append_stays_with_the_last_record_gone() -> None:
    data = some_batch(2)
    header = read_header(data)._replace(attributes=LOG_APPEND_TIME_BIT, max_timestamp_ms=77_000_000)
    header, body, rows = scanned(pack_batch(header, data[HEADER_BYTES:]))
    for horizon_ms in (None, 99_000_000):
        kept = rewritten(header, body, rows, [row == 0 for row in range(60)], horizon_ms)
        assert [(r.timestamp_ms, r.timestamp_type) for r in read_records(kept)] == [(77_000_000, 1)]


@pytest.mark.parametrize("codec", Codec)
def test_an_emptied_batch_keeps_its_offsets_and_nothing_to_decode(codec: Codec) -> None:
    data = some_batch(4, codec, is_transactional=True)
    before, after = read_header(data), read_header(empty := emptied(read_header(data)))

    assert len(empty) == HEADER_BYTES
    assert verify_crc(empty, 0, after)
    assert (after.base_offset, after.next_offset) == (before.base_offset, before.next_offset)
    assert (after.record_count, after.codec, after.is_transactional) == (0, Codec.NONE, True)
    assert (after.leader_epoch, after.producer_id) == (4, 9)
    assert read_records(empty) == []


def test_a_time_that_no_horizon_can_express_is_a_typed_error() -> None:
    header, body, rows = scanned(build_batch([None], keys=[b"k"], timestamps_ms=-5))
    with pytest.raises(CorruptMessageError, match="64 bits"):
        rewritten(header, body, rows, [True], (1 << 63) - 1)
