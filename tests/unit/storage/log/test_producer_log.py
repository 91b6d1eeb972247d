"""A log's producers through appends, failures, rolls, cuts, retention, stops and crashes."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaStorageError,
    MessageTooLargeError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from penstock.record.builder import build_batch
from storage.append.producer_ids import SILENT_MS
from storage.log_config import DAY_MS, LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.producer_node import ME, Node, placed, sent
from tests.support.storage import NOW_MS, SMALL, batch


class NoRoomForSnapshots(LosingFileSystem):
    """The disk is full whenever one is to be written."""

    refused = 0
    is_full = True

    def open(self, path: str, *, create: bool = False) -> int:
        if create and ".snapshot" in path and self.is_full:
            self.refused += 1
            raise OSError(errno.ENOSPC, "no room")
        return super().open(path, create=create)


def no_descriptor(*_: object) -> int:
    raise OSError(errno.EMFILE, "no descriptors")


# -- a leader's appends ------------------------------------------------------------------------------------------------


def test_a_duplicate_is_answered_as_the_first_time_and_not_written() -> None:
    node = Node(config=replace(SMALL, message_timestamp_type="LogAppendTime"))
    node.log.append.as_leader(batch(b"other"), 0, NOW_MS)
    first = node.log.append.as_leader(sent(0, 3), 0, NOW_MS + 5)
    node.log.append.as_leader(batch(b"another"), 0, NOW_MS + 6)
    before = node.log.size_bytes, node.log.log_end_offset

    again = node.log.append.as_leader(sent(0, 3), 0, NOW_MS + 9)

    assert again.is_duplicate and not first.is_duplicate
    assert (again.first_offset, again.last_offset, again.log_append_time_ms) == (1, 3, NOW_MS + 5)
    assert (node.log.size_bytes, node.log.log_end_offset) == before
    assert node.manager.producer_ids.counts.duplicates == 1


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (sent(3), OutOfOrderSequenceError),
        (sent(0, 2), OutOfOrderSequenceError),
        (sent(5, epoch=1), OutOfOrderSequenceError),
        (sent(2, producer_id=8), UnknownProducerIdError),
        (sent(0) + sent(1), InvalidRecordError),
        (batch(b"a") + sent(2), InvalidRecordError),
        (build_batch([b"v"], timestamps_ms=NOW_MS, producer_id=ME, producer_epoch=0), InvalidRecordError),
        (build_batch([b"v"], timestamps_ms=NOW_MS, producer_id=ME, base_sequence=0), InvalidRecordError),
    ],
)
def test_a_refused_batch_changes_nothing(records: bytes, error: type[ApiError]) -> None:
    node = Node()
    node.send(0, 1)

    with pytest.raises(error) as refused:
        node.log.append.as_leader(records, 0, NOW_MS)

    assert type(refused.value) is error and refused.value.nothing_written
    assert node.known() == [(0, 0), (1, 1)] and node.log.log_end_offset == 2
    node.send(2)


def test_a_sequence_without_a_producer_id_makes_no_duplicate_and_is_not_remembered() -> None:
    """A client of Kafka's numbers the batches of a producer that is not idempotent."""
    node = Node()
    plain = build_batch([b"v"], timestamps_ms=NOW_MS, base_sequence=0)
    assert [node.log.append.as_leader(plain, 0, NOW_MS).first_offset for _ in range(2)] == [0, 1]
    assert node.known(-1) == []
    for clean in (True, False):
        node.log.flush()
        node.restart(clean=clean)
        assert node.known(-1) == [] and node.log.log_end_offset == 2


def test_an_old_epoch_is_fenced_and_every_refusal_is_counted() -> None:
    node = Node()
    node.send(0)
    node.send(0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        node.send(1)
    with pytest.raises(OutOfOrderSequenceError):
        node.send(7, epoch=1)
    with pytest.raises(UnknownProducerIdError):
        node.send(7, producer_id=8)
    counts = node.manager.producer_ids.counts
    assert (counts.fenced, counts.out_of_order, counts.unknown) == (1, 1, 1)


def test_a_duplicate_is_answered_although_its_size_is_not_allowed_any_more() -> None:
    node = Node()
    node.send(0)
    node.log.update_config(replace(SMALL, max_message_bytes=10))

    assert node.send(0).is_duplicate
    with pytest.raises(MessageTooLargeError):
        node.send(1)
    damaged = sent(0)[:-1] + b"?"
    with pytest.raises((MessageTooLargeError, CorruptMessageError)):
        node.log.append.as_leader(damaged, 0, NOW_MS)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_append_that_the_disk_refuses_is_not_known(code: int) -> None:
    node = Node()
    node.send(0, 1)
    node.fs.fail_on = {"write": code}
    with pytest.raises(KafkaStorageError):
        node.send(2)
    node.fs.fail_on = {}

    assert node.known() == [(0, 0), (1, 1)]
    if code == errno.ENOSPC:
        assert node.send(2).first_offset == 2


def test_a_log_without_bounds_takes_no_producers() -> None:
    """The quorum's own: it is opened with a configuration that says so."""
    node = Node(config=replace(SMALL, keeps_producers=False))
    with pytest.raises(InvalidRecordError):
        node.send(0)
    for _ in range(20):
        node.log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
    node.restart(clean=True)
    assert node.snapshots() == []


# -- a follower's appends ----------------------------------------------------------------------------------------------


def test_a_follower_takes_what_its_leader_has_without_checks() -> None:
    node = Node()
    records = [(0, 0), (1, 0), (0, 2), (9, 2), (0, 1)]
    fetched = b"".join(placed(sent(sequence, epoch=epoch), at) for at, (sequence, epoch) in enumerate(records))
    node.log.append.as_follower(fetched)

    assert node.known() == [(0, 4)]
    assert node.send(1, epoch=1).first_offset == 5


def test_an_append_over_segments_that_fails_in_the_last_is_taken_back() -> None:
    node = Node()
    node.log.append.as_follower(b"".join(placed(sent(n), n) for n in range(3)))
    before = node.known()
    rest = b"".join(placed(sent(n), n) for n in range(3, 20))
    node.fs.fail_at[node.fs.operations + 5] = errno.ENOSPC
    with pytest.raises(KafkaStorageError):
        node.log.append.as_follower(rest)
    assert (node.known(), node.log.log_end_offset, len(node.log.segments)) == (before, 3, 1)
    node.log.flush()
    assert node.snapshots() == []

    node.log.append.as_follower(rest)
    assert node.known() == [(n, n) for n in range(15, 20)]


# -- truncation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 6, 7, 8, 13, 19, 20])
def test_after_a_truncation_the_last_five_are_exact(offset: int, flushes: bool) -> None:
    node = Node()
    for n in range(20):
        node.send(n)
        if flushes:
            node.log.flush()
    node.log.truncate_to(offset)

    assert node.known() == [(n, n) for n in range(max(0, offset - 5), offset)]
    assert [found for found in node.snapshots() if found > offset] == []
    node.log.append.as_leader(sent(offset), 1, NOW_MS)
    node.restart(node.fs.after_kill())
    assert node.known() == [(n, n) for n in range(max(0, offset - 4), offset + 1)]


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 6, 7, 8, 13, 19, 20])
def test_a_thread_finds_out_before_a_truncation_what_is_known_after_it(offset: int, flushes: bool) -> None:
    node = Node()
    for n in range(20):
        node.send(n)
        if flushes:
            node.log.flush()
    prepared = node.log.producers.prepare_cut(offset)
    if prepared is not None:
        prepared.run(lambda: True)
    node.log.truncate_to(offset)

    assert not node.log.producers.is_stale or offset == 0
    assert node.known() == [(n, n) for n in range(max(0, offset - 5), offset)]
    assert len(node.manager.producer_ids) == (offset > 0)


@pytest.mark.parametrize("why", ["not wanted", "cut elsewhere", "file gone", "no descriptor"])
def test_without_a_good_preparation_the_next_append_reads(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.send(*range(20))
    node.log.flush()
    with monkeypatch.context() as patched:
        if why == "no descriptor":
            patched.setattr(node.fs, "dup", no_descriptor)
        else:
            for segment in node.log.segments[:-1]:
                segment.close()
        prepared = node.log.producers.prepare_cut(12)
    assert (prepared is None) == (why == "no descriptor")
    path = node.log.segments[1].log_path
    if why == "file gone":
        node.fs.rename(path, path + "-gone")
    if prepared is not None:
        prepared.run(lambda: why != "not wanted")
    if why == "file gone":
        node.fs.rename(path + "-gone", path)
    node.log.truncate_to(11 if why == "cut elsewhere" else 12)

    assert node.log.producers.is_stale
    end = node.log.log_end_offset
    assert node.send(end).first_offset == end
    assert node.known() == [(n, n) for n in range(end - 4, end + 1)]


def test_a_snapshot_that_waits_to_be_written_outlives_a_cut_above_it() -> None:
    node = Node()
    node.send(*range(8))
    base = node.log.segments[1].base_offset
    node.send(8, 9)
    node.log.truncate_to(base + 1)
    node.log.flush()

    assert node.snapshots() == [base]


def test_a_truncation_above_the_last_batch_of_a_producer_reads_nothing() -> None:
    node = Node()
    node.send(0, 1)
    for _ in range(4):
        node.log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
    node.log.truncate_to(3)

    assert not node.log.producers.is_stale
    assert node.known() == [(0, 0), (1, 1)]


def test_an_emptied_log_knows_nobody() -> None:
    node = Node()
    node.send(*range(10))
    node.log.flush()
    node.log.truncate_fully_and_start_at(50)

    assert node.known() == [] and node.snapshots() == []
    with pytest.raises(UnknownProducerIdError):
        node.send(10)
    node.restart(node.fs.after_crash())
    assert node.known() == []


def test_a_flush_that_began_before_a_truncation_writes_no_snapshot_of_what_was_cut() -> None:
    node = Node()
    node.send(*range(10))
    pending = node.log.prepare_flush()
    assert pending is not None and pending.noted
    node.log.truncate_to(3)
    pending.run()

    assert node.snapshots() == []


# -- stops and crashes -------------------------------------------------------------------------------------------------


def test_a_flush_writes_the_snapshot_of_a_roll_and_a_roll_writes_nothing() -> None:
    node = Node()
    node.send(*range(8))
    assert len(node.log.segments) == 2 and node.snapshots() == []

    node.log.flush()
    assert node.snapshots() == [node.log.segments[1].base_offset]


@pytest.mark.parametrize("end", ["clean", "kill", "power cut"])
def test_producers_are_known_after_every_end(end: str) -> None:
    node = Node()
    node.send(*range(30))
    node.send(*range(3), producer_id=8, epoch=4)
    node.log.flush()
    ends = {"clean": node.fs, "kill": node.fs.after_kill(), "power cut": node.fs.after_crash()}
    node.restart(ends[end], clean=end == "clean")

    assert node.known() == [(n, n) for n in range(25, 30)]
    assert node.known(8) == [(n, 30 + n) for n in range(3)]
    assert node.send(29).is_duplicate and not node.send(30).is_duplicate


def test_the_time_of_a_last_append_comes_from_the_snapshot_and_else_from_the_last_write_to_the_segment() -> None:
    node = Node()
    node.send(0)
    node.restart(clean=True)
    node.clock.advance(5_000)
    node.send(0, producer_id=8)
    node.log.flush()
    node.restart(node.fs.after_kill())

    entries = node.log.producers.known.copy()
    assert entries[ME].last_append_ms == NOW_MS
    assert entries[8].last_append_ms == NOW_MS + 5_000


def test_a_clean_log_without_producers_has_no_snapshot_and_is_not_read() -> None:
    node = Node(config=LogConfig())
    for _ in range(10):
        node.log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
    node.restart(clean=True)

    assert node.snapshots() == []


def test_a_clean_stop_needs_its_snapshot() -> None:
    """Without one the log would have no producers at the next start, for a log without snapshots has none."""
    fs = NoRoomForSnapshots()
    node = Node(fs, config=LogConfig())
    node.send(0)
    node.log.flush()
    node.manager.close(True)

    assert fs.refused == 1
    node.restart(node.fs.after_kill())
    assert not node.manager.was_clean_shutdown
    assert node.known() == [(0, 0)]


def test_a_snapshot_that_does_not_fit_on_the_disk_is_left_out() -> None:
    node = Node(NoRoomForSnapshots())
    node.send(*range(8))
    assert node.log.flush() == 8

    assert node.snapshots() == []
    assert node.manager.producer_ids.counts.snapshots_left_out == 1
    node.restart(node.fs.after_crash())
    assert node.known() == [(n, n) for n in range(3, 8)]


@pytest.mark.parametrize("way", ["files removed for room", "expired files removed", "flush"])
def test_producers_whose_records_made_room_on_a_full_disk_are_known_once_there_is_some(way: str) -> None:
    fs = NoRoomForSnapshots()
    node = Node(fs, config=LogConfig())
    node.send(*range(3))
    node.log.flush()
    node.log.roll()
    node.log.full.remove_oldest(1)
    node.log.full.run_file_changes(sync=True)
    assert node.snapshots() == []

    fs.is_full = False
    if way == "files removed for room":
        node.log.full.delete_removed_files()
    elif way == "expired files removed":
        node.log.full.delete_expired_files(0)
    else:
        node.send(0, producer_id=ME + 1)
        node.log.flush()
    assert node.snapshots() == [3] and fs.refused == node.manager.producer_ids.counts.snapshots_left_out == 1
    node.restart(node.fs.after_kill() if way == "flush" else node.fs.after_crash())
    assert node.known() == [(n, n) for n in range(3)]
    assert node.send(2).is_duplicate


def test_a_snapshot_that_found_no_room_is_not_written_once_its_records_were_cut() -> None:
    fs = NoRoomForSnapshots()
    node = Node(fs, config=LogConfig())
    node.send(*range(3))
    node.log.roll()
    node.log.flush()
    node.log.truncate_to(2)
    fs.is_full = False
    node.log.full.delete_removed_files()

    assert node.snapshots() == []


def test_an_idle_log_writes_its_snapshot_once() -> None:
    node = Node()
    node.send(0)
    node.restart(clean=True)
    before = node.fs.operations
    node.restart(clean=True)

    assert node.snapshots() == [1]
    assert not [step for step in node.fs.trace[before:] if "snapshot" in step]


def test_a_cut_that_takes_the_snapshot_of_a_stop_and_no_producer_has_the_next_stop_write_it_again() -> None:
    """A clean log without a snapshot has no producers."""
    node = Node()
    node.send(0)
    node.log.append.as_leader(batch(b"another"), 0, NOW_MS)
    node.restart(clean=True)
    assert node.snapshots() == [2]

    node.log.truncate_to(1)
    assert node.snapshots() == []
    node.restart(clean=True)

    assert node.snapshots() == [1]
    assert node.known() == [(0, 0)]


def test_snapshots_of_stops_do_not_pile_up() -> None:
    node = Node()
    for n in range(6):
        node.send(n)
        node.restart(clean=True)
    assert len(node.snapshots()) <= 2
    assert node.known() == [(n, n) for n in range(1, 6)]


def test_a_damaged_snapshot_costs_time_only() -> None:
    node = Node()
    node.send(*range(10))
    node.manager.close(True)
    for path in node.fs.files(node.log.directory):
        if path.endswith(".snapshot"):
            node.fs.damage(path, 9, 1)
    node.restart(node.fs)

    assert node.known() == [(n, n) for n in range(5, 10)]
    assert node.snapshots() == [], "what is not good is removed"


# -- what goes, and what stays -----------------------------------------------------------------------------------------


def test_producers_outlive_their_records() -> None:
    node = Node()
    node.send(*range(5))
    for _ in range(15):
        node.log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
    node.log.flush()
    node.log.full.remove_oldest(2)
    node.log.advance_log_start(18)
    node.log.full.run_file_changes(sync=True)

    assert min(node.snapshots()) >= node.log.segments[0].base_offset
    for fs in (node.fs.after_crash(), node.fs.after_kill()):
        node.restart(fs)
        assert node.known() == [(n, n) for n in range(5)]


def test_a_snapshot_is_durable_before_the_segments_below_it_go() -> None:
    node = Node()
    node.send(*range(7))
    node.log.flush()
    node.log.roll()
    node.log.full.remove_oldest(1)
    node.log.full.run_file_changes(sync=True)

    assert node.snapshots() == [7]
    node.restart(node.fs.after_crash())
    assert node.log.log_start_offset == 7 and node.known() == [(n, n) for n in range(2, 7)]


def test_a_removal_of_segments_writes_no_snapshot_of_an_append_that_fails_meanwhile() -> None:
    """The removal runs in a thread. Records of other producers may come to these offsets, in the same epoch."""
    node = Node()
    node.send(*range(8))
    node.log.flush()
    node.log.full.remove_oldest(1)
    end = node.log.log_end_offset
    node.log.producers.note_snapshot(end + 3)  # as the roll of an append does
    node.log.full.run_file_changes()
    node.log.producers.take_back(end)

    assert max(node.snapshots()) <= end


def test_with_flush_policy_os_snapshots_of_removed_segments_go_too() -> None:
    node = Node()
    node.log.update_config(SMALL, "os")
    for n in range(40):
        node.send(n)
        node.log.full.remove_oldest(len(node.log.segments) - 1)
        node.log.full.run_file_changes()

    assert len(node.snapshots()) <= 2
    node.restart(node.fs.after_kill())
    assert node.known() == [(n, n) for n in range(35, 40)]


def test_a_silent_producer_expires() -> None:
    node = Node(expiration_ms=1_000)
    node.send(0)
    node.clock.advance(900)
    node.send(0, producer_id=8)
    node.clock.advance(200)
    node.log.producers.forget_silent()

    assert node.known() == [] and node.known(8) == [(0, 1)]
    assert len(node.manager.producer_ids) == 1 and node.manager.producer_ids.counts.expired == 1
    node.restart(clean=True)
    assert node.known() == []


@pytest.mark.parametrize("bound", ["max_per_partition", "max_per_node"])
def test_after_a_clock_that_was_ahead_producers_are_silent_again(bound: str) -> None:
    node = Node(**{bound: 2})
    node.clock.jump_wall(DAY_MS)
    node.send(0, producer_id=1)
    node.send(0, producer_id=2)
    node.clock.jump_wall(-DAY_MS)
    node.log.producers.forget_silent()
    node.clock.advance(SILENT_MS)

    node.send(0, producer_id=3)
    assert [node.known(one) for one in (1, 2, 3)] == [[], [(0, 1)], [(0, 2)]]
