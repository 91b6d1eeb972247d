"""The largest timestamp of a range of offsets is the one that reading every record finds, wherever the range ends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.record.batch import HEADER_BYTES, BatchHeader, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress
from penstock.record.markers import Marker, build_marker
from penstock.record.reader import RecordColumns, columns_of_batch, read_columns
from penstock.types import TimestampAndOffset
from storage.append.append_origin import COORDINATOR
from storage.disk.atomic_file import write_atomically
from storage.log.log import Log
from storage.log.log_reader import ColdLookUp, Records
from storage.log_config import LogConfig
from storage.segment import timestamp_lookup
from storage.segment.batch_scan import NOWAIT_HEADERS_MAX
from storage.segment.cold_read import ColdRead
from storage.segment.offset_index import ENTRY_BYTES
from storage.segment.timestamp_lookup import LOOK_UP_LIMITS, LOOP_BYTES_MAX, VAIN_BATCHES_MAX, LookUpLimits, TimeLookUp
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, batch, new_log, reopened


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


def test_a_marker_with_the_largest_time_is_found_as_in_kafka() -> None:
    log = new_log(LosingFileSystem())
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    marker = build_marker(Marker(7, 0, True, 1), NOW_MS + 10**6)
    log.append.as_leader(marker, 1, NOW_MS, COORDINATOR)
    assert place(max_timestamp(log)) == (NOW_MS + 10**6, 2)
    assert place(max_timestamp(log, below=2)) == by_reading(log, 2)


def test_a_marker_whose_record_the_cleaner_took_is_no_record() -> None:
    log = new_log(LosingFileSystem())
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    empty = pack_batch(read_header(build_marker(Marker(7, 0, True, 1), NOW_MS + 10**6))._replace(record_count=0), b"")
    log.append.as_follower(pack_batch(read_header(empty)._replace(base_offset=2, leader_epoch=1), b""))
    assert place(max_timestamp(log)) == by_reading(log, 2)


def test_an_empty_range_has_none() -> None:
    log = new_log(LosingFileSystem())
    assert max_timestamp(log) is None
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    assert max_timestamp(log, below=0) is None
    log.advance_log_start(2)
    assert max_timestamp(log) is None


def test_a_batch_that_cannot_be_decoded_stops_no_look_up() -> None:
    log = new_log(LosingFileSystem(), replace(SMALL, record_validation="headers"))
    junk = read_header(batch(b"a", timestamp_ms=NOW_MS + 500))
    log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS), 1, NOW_MS)
    log.append.as_leader(pack_batch(junk, b"\xff" * 30), 1, NOW_MS)
    log.append.as_leader(batch(b"b", timestamp_ms=NOW_MS + 100), 1, NOW_MS)

    cold = in_thread(log, NOW_MS + 1)
    assert cold.result() == TimestampAndOffset(NOW_MS + 100, 2, 1), "behind it"
    (line,) = cold.notes.undecodable
    assert "the batch at offset 1 (byte 69) cannot be decoded" in line
    assert max_timestamp(log) == TimestampAndOffset(NOW_MS + 500, 1, 1), "as its header says"
    assert offset_for_timestamp(log, NOW_MS + 200) is None
    assert not log.statistics().failed


def test_a_batch_whose_records_are_all_compacted_has_no_largest_time() -> None:
    log = new_log(LosingFileSystem())
    for offset in range(2):
        empty = read_header(batch(b"a", timestamp_ms=NOW_MS + 500))._replace(base_offset=offset, record_count=0)
        log.append.as_follower(pack_batch(empty, b""))
        assert max_timestamp(log) is None
    log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS), 1, NOW_MS)
    assert max_timestamp(log) == TimestampAndOffset(NOW_MS, 2, 1)


BIG = LogConfig(segment_bytes=1 << 20, record_validation="headers")


def in_thread(log: Log, timestamp_ms: int, limits: LookUpLimits = LOOK_UP_LIMITS) -> ColdLookUp:
    """The look-up that the event loop leaves to a thread, after that has made it."""
    found = log.reader.look_up_nowait(TimeLookUp(log.log_start_offset, timestamp_ms, limits=limits))
    assert isinstance(found, ColdLookUp)
    found.run()
    return found


def promising(count: int = 1, value: bytes = b"v", codec: Codec = Codec.NONE) -> bytes:
    """A batch whose header says a largest time that none of its records has: all are of NOW_MS."""
    honest = build_batch([value] * count, timestamps_ms=NOW_MS)
    header = read_header(honest)._replace(max_timestamp_ms=NOW_MS + 1000, attributes=int(codec))
    return pack_batch(header, compress(codec, honest[HEADER_BYTES:]))


def test_the_event_loop_decodes_one_small_batch_that_is_not_compressed_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []

    def counting(body: bytes, at: int, end: int, header: BatchHeader) -> RecordColumns:
        decoded.append(header.base_offset)
        return columns_of_batch(body, at, end, header)

    monkeypatch.setattr(timestamp_lookup, "columns_of_batch", counting)
    for values, codec in (([b"v"], "zstd"), ([bytes(LOOP_BYTES_MAX)], "none")):
        log = new_log(LosingFileSystem(), BIG)
        log.append.as_leader(build_batch(values, timestamps_ms=NOW_MS, codec=Codec[codec.upper()]), 1, NOW_MS)
        for wanted in (TimeLookUp(0, NOW_MS), TimeLookUp(0)):
            work = log.reader.look_up_nowait(wanted)
            assert isinstance(work, ColdLookUp) and decoded == []
            work.discard()

    log = new_log(LosingFileSystem(), BIG)
    log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS), 1, NOW_MS)
    assert log.reader.look_up_nowait(TimeLookUp(0, NOW_MS)) == TimestampAndOffset(NOW_MS, 0, 1)
    log.append.as_leader(promising(), 1, NOW_MS)
    log.append.as_leader(batch(b"b", timestamp_ms=NOW_MS + 10), 1, NOW_MS)
    decoded.clear()
    work = log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 1))
    assert isinstance(work, ColdLookUp) and decoded == [1], "it was in vain"
    work.run()
    assert work.result() == TimestampAndOffset(NOW_MS + 10, 2, 1)


def test_after_some_batches_that_promise_in_vain_the_next_one_is_the_answer_by_its_header() -> None:
    log = new_log(LosingFileSystem(), BIG)
    for _ in range(VAIN_BATCHES_MAX + 5):
        log.append.as_leader(promising(2), 1, NOW_MS)
    log.append.as_leader(batch(b"b", timestamp_ms=NOW_MS + 100), 1, NOW_MS)
    found = in_thread(log, NOW_MS + 1).result()
    assert found == TimestampAndOffset(NOW_MS + 1000, 2 * VAIN_BATCHES_MAX, 1)
    assert found.offset < log.log_end_offset - 1, "not behind the record that is late enough"

    log.advance_log_start(11)
    found = in_thread(log, NOW_MS + 1).result()
    assert found is not None and found.offset == 2 * (VAIN_BATCHES_MAX + 5), "those that are deleted are not looked at"


@pytest.mark.parametrize("limits", [LookUpLimits(records=250), LookUpLimits(unpacked_bytes=250_000)])
def test_a_look_up_decodes_no_more_than_its_limits_whatever_the_headers_promise(limits: LookUpLimits) -> None:
    log = new_log(LosingFileSystem(), BIG)
    for _ in range(5):
        log.append.as_leader(promising(100, bytes(1000), Codec.ZSTD), 1, NOW_MS)
    assert in_thread(log, NOW_MS + 1, limits).result() == TimestampAndOffset(NOW_MS + 1000, 200, 1), "the third batch"
    assert max_timestamp(log, limits=limits) == TimestampAndOffset(NOW_MS + 1000, 99, 1), (
        "the last of the first that says so"
    )


@pytest.mark.parametrize("limits", [LookUpLimits(headers=21), LookUpLimits(walked_bytes=21 * 70)])
def test_a_look_up_walks_no_further_than_its_limits_behind_a_batch_that_is_ahead_of_its_time(
    limits: LookUpLimits,
) -> None:
    """The first batch is newer than all but the last one, so the time index has no entry between the two."""
    log = new_log(LosingFileSystem(), BIG)
    log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS + 10), 1, NOW_MS)
    log.append.as_leader(batch(b"b", timestamp_ms=NOW_MS) * 1000, 1, NOW_MS)
    log.append.as_leader(batch(b"c", timestamp_ms=NOW_MS + 20), 1, NOW_MS)
    exact = TimestampAndOffset(NOW_MS + 20, 1001, 1)
    assert in_thread(log, NOW_MS + 11).result() == exact
    near = log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 11, limits=limits))
    assert isinstance(near, TimestampAndOffset) and 10 < near.offset <= 21, (
        "a reader that begins there misses no record"
    )
    assert near.timestamp_ms == NOW_MS + 11

    log.advance_log_start(1)
    below = 1001
    found = max_timestamp(log, below, limits)
    assert found is not None and found.timestamp_ms == NOW_MS, "what it has looked at"
    assert max_timestamp(log, limits=limits) == exact, "the index has it"


def test_the_largest_time_of_many_segments_takes_one_batch_to_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counting(body: bytes, at: int, end: int, header: BatchHeader) -> RecordColumns:
        decoded.append(header.base_offset)
        return columns_of_batch(body, at, end, header)

    monkeypatch.setattr(timestamp_lookup, "columns_of_batch", counting)
    log = new_log(LosingFileSystem(), LogConfig(segment_bytes=200))
    for number in range(20):
        log.append.as_leader(batch(b"v", b"w", timestamp_ms=NOW_MS + number), 1, NOW_MS)
    assert len(log.segments) > 8
    found = max_timestamp(log)
    assert found is not None and found.offset == 38 and decoded == [38]


SPARSE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=(1 << 31) - 1)


def sparse_log(fs: LosingFileSystem, keep_entries: slice = slice(None)) -> Log:
    """A log of 1,000 small batches that was stopped and opened again. Of the entries of its offset index some are kept:
    release 0.2.0 and those before wrote none for a large interval, or few."""
    log = new_log(fs, SPARSE)
    log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS) * 1000, 1, NOW_MS)
    log.close()
    (index, entries), (times, of_times) = log.segments[0].indexes.contents()
    kept = [entries[at : at + ENTRY_BYTES] for at in range(0, len(entries), ENTRY_BYTES)][keep_entries]
    write_atomically(fs, index, b"".join(kept))
    write_atomically(fs, times, of_times[-12:])
    return reopened(fs, 1000, clean=True, config=SPARSE)


def is_near_everywhere(log: Log, offsets: range) -> bool:
    """True if the event loop finds a record of each seventh offset without going far."""
    return all(isinstance(log.reader.read_nowait(offset, 1, offset + 1), Records) for offset in offsets[::7])


def test_a_fetch_walks_over_few_headers_however_large_the_interval_of_the_index_is() -> None:
    fs = LosingFileSystem()
    log = new_log(fs, SPARSE)
    log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS) * 1000, 1, NOW_MS)
    assert is_near_everywhere(log, range(1000))
    log.close()
    log = reopened(fs, 1000, clean=True, config=SPARSE)
    assert log.append.as_leader(batch(b"v") * 500, 1, NOW_MS).first_offset == 1000
    assert is_near_everywhere(log, range(1000, 1500))


def test_a_log_that_an_older_release_wrote_gets_entries_from_now_on() -> None:
    """Its last entry has 800 batches behind it already."""
    log = sparse_log(LosingFileSystem(), slice(1))
    assert log.append.as_leader(batch(b"v") * 500, 1, NOW_MS).first_offset == 1000
    assert log.statistics().index_rebuilds == 0
    assert is_near_everywhere(log, range(1000, 1500))


def test_a_log_that_was_written_without_index_entries_gets_them_when_it_is_read() -> None:
    """By release 0.2.0 or before."""
    log = sparse_log(LosingFileSystem(), slice(0))
    assert log.reader.read(900, 1, max_offset=901).next_offset == 901
    assert log.statistics().index_rebuilds == 1
    assert is_near_everywhere(log, range(1000))


def test_the_event_loop_walks_over_so_many_headers_and_no_more() -> None:
    """Where an older release left a wide gap between two entries."""
    log = sparse_log(LosingFileSystem(), slice(-1, None))
    log.reader.read(0, 1, max_offset=1)
    near, far = NOWAIT_HEADERS_MAX - 2, NOWAIT_HEADERS_MAX
    assert isinstance(log.reader.read_nowait(near, 1, near + 1), Records)
    work = log.reader.read_nowait(far, 1, far + 1)
    assert isinstance(work, ColdRead)
    work.run()
    found = log.reader.finish(work, far, far + 1)
    assert found is not None and found.next_offset == far + 1
    look_up = log.reader.look_up_nowait(TimeLookUp(0, None, 700))
    assert isinstance(look_up, ColdLookUp)
    look_up.run()
    assert look_up.result() == TimestampAndOffset(NOW_MS, 0, 1)
