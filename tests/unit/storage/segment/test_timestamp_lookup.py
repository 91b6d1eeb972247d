"""The largest timestamp of a range of offsets is the one that reading every record finds, wherever the range ends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.record.batch import pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.types import TimestampAndOffset
from storage.log.log import Log
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, batch, new_log


def by_reading(log: Log, below: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record with the largest timestamp, from whole batches below the offset."""
    best: tuple[int, int] | None = None
    offset = log.log_start_offset
    while offset < below:
        fetched = log.reader.read(offset, 1 << 20, max_offset=below)
        columns = read_columns(fetched.records, from_offset=offset)
        for found_ms, at in zip(columns.timestamps_ms, columns.offsets, strict=True):
            if best is None or found_ms > best[0]:
                best = (found_ms, at)
        offset = fetched.next_offset
    return best


def place(found: TimestampAndOffset | None) -> tuple[int, int] | None:
    return None if found is None else (found.timestamp_ms, found.offset)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_reading_everything_finds(seed: int) -> None:
    rng = random.Random(seed)
    log = new_log(LosingFileSystem())
    ends = [0]
    for number in range(60):
        base_ms = NOW_MS + number * 10 * (seed % 2)  # ascending on the whole, or not at all
        times_ms = [base_ms + rng.randrange(200) for _ in range(rng.randint(1, 4))]
        log.append.as_leader(build_batch([b"v"] * len(times_ms), timestamps_ms=times_ms), 1, NOW_MS)
        ends.append(log.log_end_offset)
    assert len(log.segments) > 4
    for start in (0, ends[7] + 1, ends[30] - 1, ends[-2]):
        log.advance_log_start(max(start, log.log_start_offset))
        for below in ends:
            if below >= log.log_start_offset:
                assert place(max_timestamp(log, below)) == by_reading(log, below)
        assert place(max_timestamp(log)) == by_reading(log, log.log_end_offset)


def test_an_empty_range_has_none() -> None:
    log = new_log(LosingFileSystem())
    assert max_timestamp(log) is None
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    assert max_timestamp(log, below=0) is None
    log.advance_log_start(2)
    assert max_timestamp(log) is None


def test_a_batch_that_cannot_be_decoded_stops_no_look_up(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(LosingFileSystem(), replace(SMALL, record_validation="headers"))
    junk = read_header(batch(b"a", timestamp_ms=NOW_MS + 500))
    log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS), 1, NOW_MS)
    log.append.as_leader(pack_batch(junk, b"\xff" * 30), 1, NOW_MS)
    log.append.as_leader(batch(b"b", timestamp_ms=NOW_MS + 100), 1, NOW_MS)

    assert offset_for_timestamp(log, NOW_MS + 1) == TimestampAndOffset(NOW_MS + 100, 2, 1), "behind it"
    assert "the batch at offset 1 (byte 69) cannot be decoded" in caplog.text
    assert max_timestamp(log) == TimestampAndOffset(NOW_MS + 500, 1, 1), "as its header says"
    assert offset_for_timestamp(log, NOW_MS + 200) is None
    assert not log.statistics().failed
