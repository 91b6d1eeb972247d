"""One partition's log: appends, rolls, reads, times, truncation, epochs, and a disk that fails."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    InvariantViolation,
    KafkaStorageError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from penstock.record.batch import BatchHeader, iter_headers, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset, EpochEntry, TimestampAndOffset
from storage.disk.disk_errors import is_disk_full
from storage.log_config import LogConfig
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, batch, filled, new_log, read_all, reopened

BIG = LogConfig()


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


def relabelled(records: bytes, **fields: int) -> bytes:
    """The same batch with other header fields and a right checksum."""
    header = read_header(records)
    return pack_batch(BatchHeader._make(header)._replace(**fields), records[61:])


# -- appending ---------------------------------------------------------------------------------------------------------


def test_leader_gives_dense_offsets_and_its_epoch(fs: LosingFileSystem) -> None:
    log = new_log(fs, BIG)
    first = log.append.as_leader(batch(b"a", b"b") + batch(b"c"), 3, NOW_MS)
    second = log.append.as_leader(batch(b"d"), 4, NOW_MS)

    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.log_append_time_ms) == (3, 3, -1)
    placed = [(h.base_offset, h.leader_epoch) for _, h in iter_headers(log.reader.read(0, 10_000).records)]
    assert placed == [(0, 3), (2, 3), (3, 4)]
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_more_batches_than_one_writev_takes_are_written(fs: LosingFileSystem) -> None:
    log = new_log(fs, BIG)
    log.append.as_leader(batch(b"x") * 700, 0, NOW_MS)

    assert [offset for offset, _ in read_all(log, 1 << 20)] == list(range(700))


def test_log_append_time_is_stamped_by_the_leader(fs: LosingFileSystem) -> None:
    log = new_log(fs, LogConfig(message_timestamp_type="LogAppendTime"))
    records = batch(b"a", timestamp_ms=5)
    info = log.append.as_leader(records, 0, NOW_MS)

    assert info.log_append_time_ms == info.max_timestamp_ms == NOW_MS
    assert records == batch(b"a", timestamp_ms=5), "the producer's bytes are not touched"
    assert offset_for_timestamp(log, NOW_MS) == TimestampAndOffset(NOW_MS, 0, 0)


REFUSED = {
    "bad checksum": (batch(b"a")[:-1] + b"!", CorruptMessageError),
    "wrong magic": (batch(b"a")[:16] + b"\x01" + batch(b"a")[17:], CorruptMessageError),
    "trailing bytes": (batch(b"a") + b"tail", CorruptMessageError),
    "cut": (batch(b"a")[:-1], CorruptMessageError),
    "nothing": (b"", CorruptMessageError),
    "no records": (relabelled(batch(b"a"), record_count=0), InvalidRecordError),
    "count and delta differ": (relabelled(batch(b"a"), last_offset_delta=7), InvalidRecordError),
    "control batch": (relabelled(batch(b"a"), attributes=0x20), InvalidRecordError),
    "delete horizon": (relabelled(batch(b"a"), attributes=0x40), InvalidRecordError),
    "unknown codec": (relabelled(batch(b"a"), attributes=7), UnsupportedCompressionTypeError),
    "too large": (batch(b"x" * 2_000_000), MessageTooLargeError),
    "negative time": (relabelled(batch(b"a"), base_timestamp_ms=-2), InvalidTimestampError),
    "far in the future": (batch(b"a", timestamp_ms=NOW_MS + 3_600_001), InvalidTimestampError),
}


@pytest.mark.parametrize("why", REFUSED)
def test_leader_refuses_before_a_byte_is_written(fs: LosingFileSystem, why: str) -> None:
    records, error = REFUSED[why]
    log = filled(fs, 2, BIG)
    size = log.size_bytes

    with pytest.raises(error):
        log.append.as_leader(batch(b"good") + records if records else records, 0, NOW_MS)

    assert (log.log_end_offset, log.size_bytes) == (2, size)
    assert fs.size("/d/orders-0/00000000000000000000.log") == size


def test_timestamps_before_the_accepted_range_are_refused(fs: LosingFileSystem) -> None:
    log = new_log(fs, LogConfig(message_timestamp_before_max_ms=1000))

    with pytest.raises(InvalidTimestampError, match=r"message\.timestamp\.before\.max\.ms = 1000"):
        log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS - 1001), 0, NOW_MS)


def test_batches_larger_than_a_segment_are_refused_by_a_leader(fs: LosingFileSystem) -> None:
    with pytest.raises(RecordListTooLargeError, match=r"segment\.bytes = 600"):
        new_log(fs).append.as_leader(batch(b"x" * 700), 0, NOW_MS)


def test_an_epoch_that_falls_is_a_bug(fs: LosingFileSystem) -> None:
    with pytest.raises(InvariantViolation):
        filled(fs, 1, epoch=5).append.as_leader(batch(b"a"), 4, NOW_MS)


def test_follower_writes_what_the_leader_wrote(fs: LosingFileSystem) -> None:
    leader = filled(fs, 10)
    follower = new_log(LosingFileSystem(), LogConfig(segment_bytes=200))
    for offset in (0, 7):
        follower.append.as_follower(leader.reader.read(offset, 10_000).records)

    assert read_all(follower) == read_all(leader)
    assert len(follower.segments) > len(leader.segments), "a fetch larger than a segment is spread over several"
    assert follower.epoch_entries == leader.epoch_entries


def test_follower_takes_a_batch_that_is_larger_than_its_segments(fs: LosingFileSystem) -> None:
    log = filled(fs, 1)
    log.append.as_follower(batch(b"x" * 5000, base_offset=1, leader_epoch=0))

    assert log.log_end_offset == 2


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (batch(b"a", base_offset=3, leader_epoch=2), "offset 3 stands where offset 2 should follow"),
        (batch(b"a", base_offset=1, leader_epoch=2), "offset 1 stands where offset 2 should follow"),
        (
            batch(b"a", base_offset=2, leader_epoch=1),
            "the leader's batch at offset 2 has leader epoch 1, after epoch 2",
        ),
        (batch(b"a", base_offset=2, leader_epoch=2)[:-1] + b"!", "checksum"),
    ],
)
def test_follower_refuses_what_does_not_continue_its_log(fs: LosingFileSystem, records: bytes, why: str) -> None:
    log = filled(fs, 2, epoch=2)

    with pytest.raises(CorruptMessageError, match=why):
        log.append.as_follower(records)
    assert log.log_end_offset == 2


# -- rolling -----------------------------------------------------------------------------------------------------------


def test_a_segment_rolls_when_the_next_batch_does_not_fit(fs: LosingFileSystem) -> None:
    log = filled(fs, 20)

    assert len(log.segments) > 1
    assert all(segment.size_bytes <= SMALL.segment_bytes for segment in log.segments)
    assert [segment.base_offset for segment in log.segments][:2] == [0, 7]


def test_a_segment_rolls_by_the_time_of_its_records(fs: LosingFileSystem) -> None:
    log = new_log(fs, LogConfig(segment_ms=1000))
    for later_ms in (0, 1000, 1001):
        log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS + later_ms), 0, NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_rolls_when_its_index_is_full(fs: LosingFileSystem) -> None:
    log = filled(fs, 20, LogConfig(segment_index_bytes=48, index_interval_bytes=0))

    assert len(log.segments) > 2
    assert read_all(log) == [(n, b"value-%02d" % n) for n in range(20)]


def test_an_empty_segment_does_not_roll(fs: LosingFileSystem) -> None:
    log = new_log(fs)
    log.roll()

    assert len(log.segments) == 1


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_read_ends_below_max_offset_even_inside_a_batch(fs: LosingFileSystem) -> None:
    log = new_log(fs, BIG)
    log.append.as_leader(batch(b"a", b"b") + batch(b"c", b"d"), 0, NOW_MS)

    assert log.reader.read(0, 1000, max_offset=3).next_offset == 2
    assert log.reader.read(0, 1000, max_offset=1).records == b""
    assert log.reader.read(1, 1000, max_offset=4).next_offset == 4


def test_a_read_makes_progress_with_one_batch_beyond_max_bytes(fs: LosingFileSystem) -> None:
    log = filled(fs, 3, BIG)

    assert log.reader.read(0, 1).next_offset == 1
    assert log.reader.read(0, 1, min_one_batch=False).records == b""
    assert log.reader.read(0, 0).next_offset == 1


def test_a_read_outside_the_log_says_both_bounds(fs: LosingFileSystem) -> None:
    log = filled(fs, 5)
    log.advance_log_start(2)
    for offset in (1, 6, -1):
        with pytest.raises(OffsetOutOfRangeError, match=r"2\.\.5") as caught:
            log.reader.read(offset, 100)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (2, 5)
    assert log.reader.read(5, 100).records == b""


def test_a_log_start_is_durable_once_it_is_written_unless_the_log_was_cut_meanwhile(fs: LosingFileSystem) -> None:
    log = new_log(fs, BIG)
    log.append.as_leader(batch(b"a", b"b", b"c", b"d"), 0, NOW_MS)
    log.advance_log_start(2)
    assert log.written_start.durable == 0
    is_written = log.written_start.note()
    log.advance_log_start(3)
    is_written()
    assert log.written_start.durable == 2
    log.truncate_to(3)  # the batch goes, and with it the claim: it begins at 0
    assert (log.log_start_offset, log.written_start.durable) == (0, 0)
    log.append.as_leader(batch(b"a", b"b", b"c", b"d"), 1, NOW_MS)
    log.advance_log_start(3)
    is_written = log.written_start.note()
    log.truncate_fully_and_start_at(1)
    log.append.as_leader(batch(b"b", b"c", b"d"), 2, NOW_MS)
    log.advance_log_start(3)
    is_written()
    assert (log.log_start_offset, log.written_start.durable) == (3, 1)


def test_a_read_at_the_tail_looks_nothing_up(fs: LosingFileSystem) -> None:
    class CountingFileSystem(LosingFileSystem):
        preads = 0

        def pread(self, fd: int, size: int, at: int) -> bytes:
            self.preads += 1
            return super().pread(fd, size, at)

    counting = CountingFileSystem()
    log = new_log(counting, BIG)
    for n in range(300):
        info = log.append.as_leader(batch(b"%d" % n), 0, NOW_MS)
        counting.preads = 0
        log.reader.read(info.first_offset, 1 << 20, max_offset=info.last_offset + 1)
        log.reader.read(max(0, n - 200), 1 << 20, max_offset=max(1, n - 100))
        assert counting.preads == 2


def test_only_a_few_full_segments_stay_open(fs: LosingFileSystem) -> None:
    log = filled(fs, 200)
    log.flush()
    read_all(log)
    read_all(log)

    assert len(log.segments) > 20
    assert fs.open_descriptors < 12


def test_a_file_that_became_shorter_is_damage_not_an_end(fs: LosingFileSystem) -> None:
    log = filled(fs, 3, BIG)
    fs.cut("/d/orders-0/00000000000000000000.log", 100)

    with pytest.raises(Exception, match="damaged at byte 100"):
        log.reader.read(0, 10_000)


# -- times -------------------------------------------------------------------------------------------------------------


def test_first_record_at_or_after_a_time_is_found_inside_its_batch(fs: LosingFileSystem) -> None:
    log = new_log(fs, BIG)
    log.append.as_leader(build_batch([b"a", b"b", b"c"], timestamps_ms=[10, 30, 20]), 0, NOW_MS)
    log.append.as_leader(build_batch([b"d"], timestamps_ms=40), 1, NOW_MS)

    assert offset_for_timestamp(log, 0) == TimestampAndOffset(10, 0, 0)
    assert offset_for_timestamp(log, 15) == TimestampAndOffset(30, 1, 0)
    assert offset_for_timestamp(log, 31) == TimestampAndOffset(40, 3, 1)
    assert offset_for_timestamp(log, 41) is None
    assert max_timestamp(log) == TimestampAndOffset(40, 3, 1)


def test_times_that_fall_are_searched_in_offset_order(fs: LosingFileSystem) -> None:
    log = new_log(fs)
    for later_ms in (5, 90, 3, 2, 7, 80, 60, 1, 0, 4, 95, 6):
        log.append.as_leader(batch(b"a", timestamp_ms=NOW_MS + later_ms), 0, NOW_MS)

    assert offset_for_timestamp(log, NOW_MS + 6).offset == 1  # type: ignore[union-attr]
    assert offset_for_timestamp(log, NOW_MS + 91).offset == 10  # type: ignore[union-attr]
    log.advance_log_start(2)
    assert offset_for_timestamp(log, NOW_MS + 6).offset == 4  # type: ignore[union-attr]
    log.advance_log_start(11)
    assert offset_for_timestamp(log, NOW_MS) == TimestampAndOffset(NOW_MS + 6, 11, 0)


def test_an_empty_log_has_no_times(fs: LosingFileSystem) -> None:
    log = new_log(fs)

    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp(log) is None


# -- cutting -----------------------------------------------------------------------------------------------------------


def test_truncation_cuts_whole_batches_and_their_epochs(fs: LosingFileSystem) -> None:
    log = filled(fs, 9, epoch=1)
    log.append.as_leader(batch(b"a", b"b", b"c"), 2, NOW_MS)
    log.flush()
    log.truncate_to(10)

    assert (log.log_end_offset, log.flushed_offset, log.recovery_point) == (9, 9, 9)
    assert log.epoch_entries == (EpochEntry(1, 0),)
    log.append.as_leader(batch(b"new"), 3, NOW_MS)
    assert read_all(log)[-1] == (9, b"new")


def test_truncation_at_the_end_still_drops_an_epoch_without_records(fs: LosingFileSystem) -> None:
    log = filled(fs, 3, epoch=1)
    log.assign_epoch(2, 3)
    log.truncate_to(3)

    assert log.epoch_entries == (EpochEntry(1, 0),)


def test_truncation_below_the_log_start_starts_anew_there(fs: LosingFileSystem) -> None:
    log = filled(fs, 10)
    log.advance_log_start(8)
    log.truncate_to(5)

    assert (log.log_start_offset, log.log_end_offset, log.epoch_entries) == (5, 5, ())


def test_a_flush_in_flight_counts_for_nothing_after_a_truncation(fs: LosingFileSystem) -> None:
    log = filled(fs, 5)
    pending = log.prepare_flush()
    assert pending is not None
    log.truncate_to(2)
    log.append.as_leader(batch(b"new"), 0, NOW_MS)
    pending.run()

    assert log.complete_flush(pending) == 2
    assert log.flush() == 3


# -- epochs ------------------------------------------------------------------------------------------------------------


def test_a_leader_records_its_epoch_at_once(fs: LosingFileSystem) -> None:
    log = filled(fs, 3, epoch=1)
    log.assign_epoch(4, 3)

    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(1) == EpochEndOffset(1, 3)
    assert log.end_offset_for_epoch(3) == EpochEndOffset(1, 3)
    assert log.end_offset_for_epoch(4) == EpochEndOffset(4, 3)
    assert log.epoch_for_offset(2) == 1


def test_an_epoch_is_durable_before_its_records_count_as_flushed(fs: LosingFileSystem) -> None:
    log = filled(fs, 3, epoch=1)
    pending = log.prepare_flush()
    assert pending is not None
    fs.trace.clear()
    pending.run()

    synced = [step.split(" ", 1)[1] for step in fs.trace]
    named = next(n for n, step in enumerate(synced) if step.startswith("rename") and "leader-epoch" in step)
    assert named < max(n for n, step in enumerate(synced) if step.startswith("fdatasync"))


# -- flushing and failing ----------------------------------------------------------------------------------------------


def test_flushed_offset_moves_only_when_the_flush_is_complete(fs: LosingFileSystem) -> None:
    log = filled(fs, 3)
    assert log.flushed_offset == 0
    pending = log.prepare_flush()
    assert pending is not None
    log.append.as_leader(batch(b"late"), 0, NOW_MS)
    pending.run()
    assert log.flushed_offset == 0

    assert log.complete_flush(pending) == 3
    assert log.flush() == 4
    assert log.prepare_flush() is None


def test_a_flush_covers_segments_that_were_rolled_meanwhile(fs: LosingFileSystem) -> None:
    log = filled(fs, 30)
    assert log.flush() == 30

    assert read_all(reopened(fs.after_crash(), 30)) == read_all(log)


def test_flush_policy_os_counts_the_page_cache_but_not_the_recovery_point(fs: LosingFileSystem) -> None:
    log = new_log(fs, flush_policy="os")
    log.append.as_leader(batch(b"a"), 0, NOW_MS)

    assert (log.flushed_offset, log.recovery_point) == (1, 0)
    log.flush()
    assert log.recovery_point == 1


def test_flush_is_due_by_records_and_by_time(fs: LosingFileSystem) -> None:
    log = filled(fs, 2, LogConfig(flush_messages=3, flush_ms=100))

    assert not log.flush_schedule.is_due(0)
    assert log.flush_schedule.is_due(100)
    log.append.as_leader(batch(b"a"), 0, NOW_MS)
    assert log.flush_schedule.is_due(1)
    log.flush()
    assert not log.flush_schedule.is_due(1000)


def test_a_roll_makes_a_flush_due_whatever_the_policy(fs: LosingFileSystem) -> None:
    """Also one that no request follows: by age, or by retention."""
    log = new_log(fs, flush_policy="os")
    log.append.as_leader(batch(b"a"), 0, NOW_MS)
    assert not log.flush_schedule.is_due(0)
    log.roll()
    assert log.flush_schedule.is_due(0)
    log.flush()
    assert not log.flush_schedule.is_due(0)


@pytest.mark.parametrize("short", [True, False])
def test_a_write_that_fails_or_is_short_is_taken_back(fs: LosingFileSystem, short: bool) -> None:
    log = filled(fs, 2, BIG)
    size = log.size_bytes
    if short:
        fs.short_at.add(fs.operations + 1)
    else:
        fs.fail_at[fs.operations + 1] = errno.ENOSPC

    with pytest.raises(KafkaStorageError, match=r"00000\.log: cannot append.*disk is full") as caught:
        log.append.as_leader(batch(b"lost"), 0, NOW_MS)

    assert is_disk_full(caught.value)
    assert fs.size("/d/orders-0/00000000000000000000.log") == log.size_bytes == size
    log.append.as_leader(batch(b"next"), 0, NOW_MS)
    assert read_all(log)[2:] == [(2, b"next")]


def test_a_write_that_cannot_be_taken_back_ends_the_log(fs: LosingFileSystem) -> None:
    log = filled(fs, 2, BIG)
    fs.short_at.add(fs.operations + 1)
    fs.fail_at[fs.operations + 2] = errno.EIO
    with pytest.raises(KafkaStorageError):
        log.append.as_leader(batch(b"lost"), 0, NOW_MS)

    with pytest.raises(KafkaStorageError):
        log.append.as_leader(batch(b"next"), 0, NOW_MS)
    assert log.prepare_flush() is None
    assert [value for _, value in read_all(log)] == [b"value-00", b"value-01"]


def test_a_failed_fsync_is_final(fs: LosingFileSystem) -> None:
    log = filled(fs, 2)
    fs.fail_at[fs.operations + 3] = errno.EIO
    with pytest.raises(KafkaStorageError, match="cannot flush"):
        log.flush()

    with pytest.raises(KafkaStorageError):
        log.flush()
    assert log.flushed_offset == 0
    assert log.statistics().failed


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS])
def test_every_call_may_fail_and_the_log_stays_consistent(code: int) -> None:
    for nth in range(1, 60):
        fs = LosingFileSystem()
        log = new_log(fs)
        fs.operations = 0
        fs.fail_at[nth] = code
        acked = []
        for n in range(24):
            try:
                acked.append((log.append.as_leader(batch(b"%d" % n), 0, NOW_MS).first_offset, b"%d" % n))
                if n % 5 == 4:
                    log.flush()
            except KafkaStorageError as error:
                assert "/d/orders-0" in str(error)
        assert read_all(log) == acked
        assert read_all(reopened(fs.clone(), log.recovery_point)) == acked


def test_a_failed_fsync_of_the_directory_at_a_roll_is_final_too(fs: LosingFileSystem) -> None:
    log = filled(fs, 7)
    fs.fail_at[fs.operations + 1] = errno.EIO
    with pytest.raises(KafkaStorageError, match="cannot flush"):
        log.append.as_leader(batch(b"rolls"), 0, NOW_MS)

    with pytest.raises(KafkaStorageError):
        log.append.as_leader(batch(b"again"), 0, NOW_MS)
    assert log.log_end_offset == 7


def test_a_closed_log_refuses(fs: LosingFileSystem) -> None:
    log = filled(fs, 1)
    log.close()
    log.close()

    for use in (lambda: log.reader.read(0, 10), lambda: log.append.as_leader(batch(b"a"), 0, NOW_MS), log.flush):
        with pytest.raises(KafkaStorageError, match="closed"):
            use()
    assert fs.open_descriptors == 0
