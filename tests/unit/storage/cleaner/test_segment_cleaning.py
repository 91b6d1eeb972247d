"""Cleaning keeps the latest record of each key in its place and tombstones for their time, and does no damage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.errors import CorruptFileError
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header, set_placement
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from storage.cleaner.cleaner_types import CleanerConfig, Reason
from tests.support.compaction import COMPACT, RETENTION_MS, Change, CompactedLog, state_of
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.storage import NOW_MS

FIRST = "/d/orders-0/00000000000000000000.log"
BATCH = build_batch([b"value-000"], keys=[b"k0"], timestamps_ms=NOW_MS)


def updates(count: int, keys: int = 5) -> list[Change]:
    return [(b"k%d" % (n % keys), b"value-%03d" % n) for n in range(count)]


def filled(count: int = 40, keys: int = 5, **options: object) -> CompactedLog:
    """Updates in full segments, all durable."""
    compacted = CompactedLog(**options)  # type: ignore[arg-type]
    compacted.append_all(updates(count, keys))
    compacted.seal()
    return compacted


def test_the_latest_record_of_each_key_stays_where_it_was() -> None:
    compacted = filled()
    assert compacted.clean() == 1

    assert [(r.offset, r.key, r.value) for r in compacted.records()] == [
        (35 + n, b"k%d" % n, b"value-%03d" % (35 + n)) for n in range(5)
    ]
    assert (compacted.log.log_start_offset, compacted.log.log_end_offset) == (0, 40)
    assert compacted.checkpoint.get(compacted.log.topic_partition) == 40
    assert not compacted.leftovers()


def test_a_cleaned_log_opens_as_it_was_and_is_not_cleaned_again() -> None:
    compacted = filled()
    compacted.clean()
    again = CompactedLog(compacted.fs.after_crash(), flushed=40)

    assert again.records() == compacted.records()
    assert again.log.log_end_offset == 40
    again.clean()
    statistics = again.cleaner.statistics()
    assert (statistics.passes, statistics.horizon_scans) == (0, 1)


def test_the_log_goes_on_while_and_after_it_is_cleaned() -> None:
    compacted = filled(20)

    def append_and_read(step: int) -> None:
        compacted.append((b"k0", b"step-%d" % step))
        assert compacted.state()[b"k0"] == b"step-%d" % step
        assert compacted.state()[b"k4"] == b"value-019"

    while compacted.clean_once(append_and_read):
        compacted.seal()
        if compacted.cleaner.statistics().passes == 5:
            break
    assert compacted.state().keys() == {b"k0", b"k1", b"k2", b"k3", b"k4"}


def test_cleaned_segments_become_one_and_boundaries_stay_dense() -> None:
    compacted = filled(80)
    compacted.clean()
    compacted.append_all([(b"k0", b"new")] * 8)
    compacted.seal()
    compacted.clean()

    segments = compacted.log.segments
    assert len(segments) < 6
    assert all(before.next_offset == after.base_offset for before, after in pairwise(segments))
    assert compacted.log.log_end_offset == 88


def test_offsets_stay_dense_and_keep_their_epoch() -> None:
    compacted = filled(40, keys=1)
    for n in range(20):
        compacted.append_records(build_batch([b"v"], keys=[b"k0"], timestamps_ms=NOW_MS), 3 + n // 7)
    compacted.seal()
    compacted.clean()
    headers = compacted.batches()

    assert [header.base_offset for header in headers[1:]] == [header.next_offset for header in headers[:-1]]
    assert all(compacted.log.epoch_for_offset(header.base_offset) == header.leader_epoch for header in headers)
    assert all(compacted.log.epoch_for_offset(header.last_offset) == header.leader_epoch for header in headers)
    assert len(headers) < 20


def test_a_small_map_cleans_in_several_passes() -> None:
    changes = updates(120, keys=40)
    compacted = CompactedLog(cleaner=CleanerConfig(dedupe_buffer_bytes=4000))
    compacted.append_all(changes)
    compacted.seal()
    ends = []
    while compacted.clean_once():
        last = compacted.cleaner.statistics().last_pass
        assert last is not None
        assert last.map_bytes <= 4000
        ends.append(last.end_offset)

    assert len(ends) > 3
    assert ends == sorted(set(ends))
    assert ends[-1] == 120
    assert compacted.state() == state_of(changes)
    assert len(compacted.records()) == 40


def test_a_batch_that_is_larger_than_the_map_is_mapped_all_the_same() -> None:
    compacted = CompactedLog(
        config=replace(COMPACT, segment_bytes=10_000), cleaner=CleanerConfig(dedupe_buffer_bytes=1)
    )
    for _ in range(3):
        compacted.append(*updates(50, keys=50))
    compacted.seal()

    assert compacted.clean() == 3
    assert [r.offset for r in compacted.records()] == list(range(100, 150))


def test_records_without_a_key_are_dropped() -> None:
    compacted = CompactedLog()
    compacted.append((None, b"1"), (b"a", b"2"), (None, None))
    compacted.append((None, b"3"))
    compacted.seal()
    compacted.clean()

    assert compacted.changes() == [(b"a", b"2")]
    assert compacted.log.log_end_offset == 4


def test_a_tombstone_deletes_at_once_and_goes_when_its_time_has_come() -> None:
    compacted = filled()
    compacted.append((b"k1", None), (b"k7", b"kept"))
    compacted.seal()
    compacted.clean()
    assert (b"k1", None) in compacted.changes()
    assert compacted.state().keys() == {b"k0", b"k2", b"k3", b"k4", b"k7"}

    compacted.clock.advance(RETENTION_MS)
    assert compacted.clean() == 0
    compacted.clock.advance(1)
    assert compacted.clean() == 1, "though nothing is dirty"
    last = compacted.cleaner.statistics().last_pass
    assert last is not None
    assert (last.reason, last.tombstones_removed, last.next_horizon_ms) == (Reason.TOMBSTONES, 1, None)
    assert (b"k1", None) not in compacted.changes()
    assert compacted.state().keys() == {b"k0", b"k2", b"k3", b"k4", b"k7"}
    assert compacted.clean() == 0


def test_the_tombstones_of_a_quiet_log_go_after_a_restart_too() -> None:
    compacted = filled()
    compacted.append((b"k1", None))
    compacted.seal()
    compacted.clean()
    again = CompactedLog(compacted.fs.after_crash(), flushed=41, clock=compacted.clock)
    again.clean()
    assert (b"k1", None) in again.changes()

    again.clock.advance(RETENTION_MS + 1)
    assert again.clean() == 1
    assert (b"k1", None) not in again.changes()
    assert again.cleaner.statistics().horizon_scans == 1


def test_a_key_that_was_deleted_and_written_again_lives() -> None:
    compacted = CompactedLog()
    compacted.append_all([(b"a", b"1"), (b"a", None), (b"a", b"2"), (b"b", None)])
    compacted.seal()
    compacted.clean()
    compacted.clock.advance(RETENTION_MS + 1)
    compacted.clean()

    assert compacted.changes() == [(b"a", b"2")]


def test_control_batches_and_everything_above_the_map_are_kept_as_they_are() -> None:
    compacted = CompactedLog()
    marker = build_batch([b"\x00" * 6], keys=[b"\x00\x00\x00\x01"], timestamps_ms=NOW_MS, is_control=True)
    for offset in range(6):
        placed = bytearray(marker)
        set_placement(placed, 0, offset, 0)
        compacted.log.append.as_follower(bytes(placed))
    compacted.append_all([(b"a", b"1"), (b"a", b"2")])
    compacted.seal()
    compacted.clean()

    assert [header.record_count for header in compacted.batches() if header.is_control] == [1] * 6
    assert compacted.changes() == [(b"a", b"2")]


def test_only_what_is_flushed_and_committed_is_cleaned() -> None:
    compacted = CompactedLog()
    compacted.append_all(updates(40))
    compacted.log.roll()
    assert compacted.clean() == 0, "nothing is flushed"
    compacted.log.flush()
    compacted.high_watermark = 20
    compacted.clean()
    offsets = [record.offset for record in compacted.records()]

    assert offsets == list(range(9, 40)), "whole segments: 0..6 and 7..13"
    assert compacted.checkpoint.get(compacted.log.topic_partition) == 14


def test_a_segment_in_which_nothing_changes_is_left_alone() -> None:
    compacted = filled(12, keys=12)
    before = {path: compacted.fs.read_file(path) for path in compacted.fs.files("/d/orders-0")}
    compacted.clean()

    assert {path: compacted.fs.read_file(path) for path in compacted.fs.files("/d/orders-0")} == before
    assert compacted.cleaner.statistics().passes == 1
    assert compacted.cleaner.statistics().records_kept == 12


def test_what_an_earlier_attempt_left_is_removed_first() -> None:
    compacted = filled()
    compacted.fs.close(fd := compacted.fs.open(FIRST + ".cleaned", create=True))
    assert fd
    compacted.clean()

    assert compacted.state() == state_of(updates(40))
    assert not compacted.leftovers()


@pytest.mark.parametrize("codec", Codec)
def test_records_keep_their_times_headers_and_codec(codec: Codec) -> None:
    compacted = CompactedLog(config=replace(COMPACT, segment_bytes=4000))
    for n in range(20):
        records = build_batch(
            [b"%d" % n, b"x" * 50, None],
            keys=[b"a", b"b%d" % n, b"c%d" % (n % 3)],
            timestamps_ms=[NOW_MS + n, NOW_MS - n, NOW_MS],
            headers=[(("n", b"%d" % n),), (), (("null", None),)],
            codec=codec,
        )
        compacted.log.append.as_leader(records, n // 7, NOW_MS)
    compacted.seal()
    latest = {record.key: record for record in compacted.records()}
    compacted.clean()

    found = compacted.records()
    assert found == sorted(latest.values(), key=lambda record: record.offset)
    assert {header.codec for header in compacted.batches()} == {codec}
    assert [header.leader_epoch for header in compacted.batches()] == [n // 7 for n in range(20)]


def test_the_brokers_time_stays_the_records_time() -> None:
    compacted = CompactedLog(config=replace(COMPACT, message_timestamp_type="LogAppendTime"))
    compacted.append((b"a", b"1"), (b"b", None), timestamp_ms=5)
    compacted.append((b"a", b"2"))
    compacted.seal()
    compacted.clean()

    assert [(r.key, r.timestamp_ms, r.timestamp_type) for r in compacted.records()] == [
        (b"b", NOW_MS, 1),
        (b"a", NOW_MS, 1),
    ]


def test_times_are_found_in_a_cleaned_log() -> None:
    compacted = CompactedLog()
    for n, (key, value) in enumerate(updates(40)):
        compacted.append((key, value), timestamp_ms=NOW_MS + n * 10)
    compacted.append((b"k0", b"old"), timestamp_ms=NOW_MS)
    compacted.seal()
    compacted.clean()

    found = offset_for_timestamp(compacted.log, NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (36, NOW_MS + 360)
    largest = max_timestamp(compacted.log)
    assert largest is not None
    assert (largest.offset, largest.timestamp_ms) == (39, NOW_MS + 390)


def test_records_below_the_log_start_are_cleaned_along() -> None:
    compacted = filled()
    compacted.log.advance_log_start(3)
    compacted.clean()

    assert compacted.state() == state_of(updates(40))
    assert compacted.log.log_start_offset == 3
    assert compacted.log.segments[0].base_offset == 0


# -- damage ------------------------------------------------------------------------------------------------------------


def damaged(change: str) -> CompactedLog:
    """A byte of the third batch of the first segment is not what it was."""
    compacted = filled()
    size_bytes = len(BATCH)
    at = 2 * size_bytes + {"value": size_bytes - 3, "base offset": 7, "epoch": 15, "magic": 16, "length": 10}[change]
    compacted.fs.damage(FIRST, at, 1)
    return compacted


@pytest.mark.parametrize("change", ["value", "base offset", "epoch", "magic", "length"])
def test_damage_is_refused_by_file_and_position_and_nothing_is_touched(change: str) -> None:
    compacted = damaged(change)
    before = {path: compacted.fs.read_file(path) for path in compacted.fs.files("/d")}
    with pytest.raises(CorruptFileError, match=rf"{FIRST}: damaged at byte {2 * len(BATCH)}:"):
        compacted.clean()

    assert {path: compacted.fs.read_file(path) for path in compacted.fs.files("/d")} == before
    assert compacted.cleaner.statistics().running == ()
    assert compacted.fs.open_descriptors == len([s for s in compacted.log.segments if s._fd >= 0])


def test_damage_of_the_clean_part_is_found_too_and_what_was_swapped_stays() -> None:
    compacted = filled()
    compacted.clean()
    segment = next(s for s in compacted.log.segments if s.size_bytes > 200)
    compacted.append((b"k0", b"new"))
    compacted.seal()
    compacted.fs.damage(segment.log_path, 100, 1)
    with pytest.raises(CorruptFileError, match=rf"{segment.log_path}: damaged at byte"):
        compacted.clean()

    assert compacted.checkpoint.get(compacted.log.topic_partition) == 40
    assert not compacted.leftovers()


def test_a_gap_is_damage_in_a_log_that_was_never_cleaned() -> None:
    compacted = filled()
    first, raw = compacted.log.segments[0], compacted.fs.read_file(FIRST)
    compacted.fs.cut(FIRST, 0)
    compacted.fs.pwritev(first.fd(), [raw[: len(BATCH)], raw[2 * len(BATCH) :]], 0)
    first.size_bytes -= len(BATCH)
    with pytest.raises(CorruptFileError, match="offset 2 stands where offset 1 should follow"):
        compacted.clean()


def test_a_batch_that_was_never_decodable_is_kept_and_the_others_are_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compacted, junk = CompactedLog(), pack_batch(read_header(BATCH), b"\xff" * 18)
    compacted.append_all(updates(20))
    compacted.append_records(junk, 0)
    compacted.append_all(updates(20))
    compacted.seal()
    assert compacted.clean() == 1

    statistics, log = compacted.cleaner.statistics(), compacted.log
    assert (statistics.uncleanable, statistics.undecodable_batches) == ((), 1)
    assert "the batch at offset 20 cannot be decoded, and is kept as it is" in caplog.text
    assert compacted.checkpoint.get(log.topic_partition) == log.log_end_offset == 41
    kept = read_header(log.reader.read(20, 1).records)
    assert (kept.base_offset, kept.record_count) == (20, 1)
    after = read_records(log.reader.read(36, 1 << 20).records, from_offset=36)
    assert [record.offset for record in after] == list(range(36, 41)), "of the others the latest of each key stays"


def test_a_batch_that_announces_more_records_than_the_map_holds_does_not_stop_the_cleaner() -> None:
    compacted = CompactedLog(cleaner=CleanerConfig(dedupe_buffer_bytes=4096))
    lie = build_batch([b"v"], keys=[b"k"], timestamps_ms=NOW_MS, codec=Codec.ZSTD)
    header = read_header(lie)._replace(record_count=5000, last_offset_delta=4999)
    compacted.append_all(updates(10))
    compacted.append_records(pack_batch(header, lie[HEADER_BYTES:]), 0)
    compacted.append_all(updates(10))
    compacted.seal()
    for _ in range(4):
        compacted.clean()

    assert compacted.checkpoint.get(compacted.log.topic_partition) == compacted.log.log_end_offset
    assert not compacted.cleaner.statistics().uncleanable
