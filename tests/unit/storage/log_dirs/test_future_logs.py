"""Promises of the copy of a log that moves to another log dir: a crash at any point leaves exactly one log, with
everything; an error of a disk leaves the log where it was."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest

from penstock.clock import ManualClock
from penstock.errors import InvalidTopicError, KafkaStorageError
from penstock.types import TopicPartition
from storage.append.producer_state import ProducerEntry
from storage.disk.disk_errors import is_shortage
from storage.disk.file_names import MAX_NAME_CHARACTERS
from storage.log.log import Log
from storage.log_dirs.future_directories import MoveDirectory
from storage.log_dirs.future_logs import OfLog, append_copy, complete_copy
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_loading import find_logs
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.log_swap import SwapOutcome
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.machine import THREADS, machine
from tests.support.producer_node import sent
from tests.support.storage import CLUSTER_ID, NOW_MS, SMALL, TOPIC_ID, TP, batch, log_named, open_manager, read_all

A, B, C = "/a", "/b", "/c"
OTHER_TOPIC_ID = "B" * 22
COUNT = 20
WHOLE = [(n, b"value-%02d" % n) for n in range(COUNT)]


def with_a_log(fs: LosingFileSystem) -> tuple[LogManager, Log]:
    """A node of two log dirs, and a log in the first with flushed records of two epochs in three segments."""
    manager = open_manager(fs, (A, B))
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True, log_dir=A)
    for n in range(COUNT):
        log.append.as_leader(batch(b"value-%02d" % n, timestamp_ms=NOW_MS + n), n // 8, NOW_MS)
    log.flush()
    manager.checkpoints.write_recovery_points()
    return manager, log


def copied(manager: LogManager, log: Log, side: MoveDirectory, flushed: int | None = None) -> None:
    """Fills the copy and completes it."""
    copy = manager.futures.open(side, log.topic_id, log.config, flushed)
    if copy.log_end_offset < log.log_start_offset:
        copy.truncate_fully_and_start_at(log.log_start_offset)
    while copy.log_end_offset < log.log_end_offset:
        append_copy(copy, log.reader.read(copy.log_end_offset, 300).records, log.log_start_offset)
    complete_copy(copy, OfLog.of(log))
    manager.futures.make_ready(side)


def moved(manager: LogManager, log: Log) -> SwapOutcome:
    side = manager.futures.name(TP, B)
    manager.futures.create(side, log.topic_id)
    copied(manager, log, side)
    log.abandon(wait=False)
    return manager.futures.swap(log, side, manager.futures.watch(side))


def test_a_copy_knows_of_producers_what_the_log_knows_also_when_they_wrote() -> None:
    """The batches of one are deleted; what a copy finds in the rest says nothing of it. Far from a bound, where nobody
    needs it, a snapshot does not say how long they were silent: that is watched anew."""
    clock = ManualClock(wall_ms=NOW_MS)
    manager = open_manager(LosingFileSystem(wall_ms=clock.wall_ms), (A, B), clock=clock)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True, log_dir=A)
    for n in range(COUNT):
        log.append.as_leader(sent(0, producer_id=n), 0, NOW_MS)
        clock.advance(60_000)
    log.flush()
    log.full.remove_oldest(1)
    before = log.producers.known.copy()
    assert log.segments[0].base_offset > 0 and list(before) == list(range(COUNT))
    new = moved(manager, log).log

    assert new is not None and new.log_dir == B
    assert without_silences(new.producers.known.copy()) == without_silences(before)
    assert len(manager.producer_ids) == COUNT


def without_silences(known: dict[int, ProducerEntry]) -> dict[int, ProducerEntry]:
    return {producer_id: entry._replace(silent_from_ms=None) for producer_id, entry in known.items()}


def in_dirs(fs: LosingFileSystem) -> dict[str, list[str]]:
    """The directories of the partition in each log dir, without the unique part of their names."""
    return {
        path: sorted(
            f"{TP}.{name.rpartition('-')[2]}" if "." in name else name
            for name in fs.listdir(path)
            if name.startswith("orders")
        )
        for path in (A, B)
    }


def test_a_copy_of_a_topic_that_was_deleted_and_made_anew_is_not_filled_with_the_records_of_the_new_one() -> None:
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    side = manager.futures.name(TP, B)
    manager.futures.create(side, OTHER_TOPIC_ID)
    with pytest.raises(KafkaStorageError, match="no copy of the topic"):
        manager.futures.open(side, log.topic_id, log.config, None)


def test_the_copy_takes_the_place_of_the_log() -> None:
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    outcome = moved(manager, log)
    assert outcome.error is None and outcome.log is not None and outcome.log.log_dir == B
    assert read_all(outcome.log) == WHOLE
    assert outcome.log.epoch_entries == log.epoch_entries and outcome.log.recovery_point == COUNT
    assert in_dirs(fs) == {A: ["orders-0.delete"], B: ["orders-0"]}
    outcome.log.append.as_leader(batch(b"next"), 9, NOW_MS)
    assert outcome.log.log_end_offset == COUNT + 1


@pytest.mark.parametrize("below", [3, COUNT - 1, COUNT])
def test_what_is_deleted_stays_deleted_if_the_power_fails_right_after_a_move(below: int) -> None:
    """No checkpoint of the new log dir has a line for the log by then; also when no record is left."""
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    side = manager.futures.name(TP, B)
    manager.futures.create(side, log.topic_id)
    copy = manager.futures.open(side, log.topic_id, log.config, None)
    while copy.log_end_offset < COUNT:
        append_copy(copy, log.reader.read(copy.log_end_offset, 1 << 20).records, 0)
    log.advance_log_start(below)
    complete_copy(copy, OfLog.of(log))
    manager.futures.make_ready(side)
    log.abandon(wait=False)
    new = manager.futures.swap(log, side, manager.futures.watch(side)).log

    assert new is not None and (new.log_dir, new.segments[0].base_offset) == (B, 0)
    assert new.log_start_offset == new.written_start.durable == below
    again = log_named(open_manager(fs.after_crash(), (A, B)), TP)
    assert again is not None and again.log_dir == B
    assert again.log_start_offset == again.written_start.durable == below
    assert read_all(again) == WHOLE[below:]


@pytest.mark.parametrize("kind", ["power cut", "kill", "lucky"])
def test_a_crash_at_any_point_leaves_one_log_with_everything(kind: str) -> None:
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    before = fs.operations
    moved(manager, log)
    last = fs.operations
    assert last - before > 40
    found_in = set()
    for crash_at in range(before + 1, last + 2):
        fs = LosingFileSystem()
        manager, log = with_a_log(fs)
        fs.crash_at = crash_at
        with contextlib.suppress(Crashed):
            moved(manager, log)
        if kind == "kill":
            after = fs.after_kill()
        else:
            after = fs.after_crash(Random(crash_at)) if kind == "power cut" else fs.after_lucky_crash()
        again = open_manager(after, (A, B))
        live = log_named(again, TP)
        assert live is not None, (crash_at, again.table.offline, in_dirs(after))
        assert read_all(live) == WHOLE, crash_at
        assert not again.table.offline and not again.table.vanished and not again.removal.strays, crash_at
        if TP in again.futures.going_on:  # the move goes on from what is there
            assert live.log_dir == A
            copied(again, live, again.futures.going_on[TP].side)
            live.abandon(wait=False)
            outcome = again.futures.swap(
                live, again.futures.going_on[TP].side, again.futures.watch(again.futures.going_on[TP].side)
            )
            assert outcome.log is not None and read_all(outcome.log) == WHOLE, crash_at
        found_in.add((live.log_dir, TP in again.futures.going_on))
    assert found_in == {(A, False), (A, True), (B, False)}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_a_disk_at_any_step_of_the_swap_leaves_one_log(code: int) -> None:
    """Each call of the swap fails once; the log is in use afterwards or found by the next start."""
    ended_in = set()
    for nth in range(1, 60):
        fs = LosingFileSystem()
        manager, log = with_a_log(fs)
        side = manager.futures.name(TP, B)
        manager.futures.create(side, log.topic_id)
        copied(manager, log, side)
        log.abandon(wait=False)
        at = fs.operations + nth
        fs.fail_at[at] = code
        outcome = manager.futures.swap(log, side, manager.futures.watch(side))
        if fs.operations < at:
            assert nth > 5
            break
        if outcome.log is None:
            ended_in.add("")
        else:
            ended_in.add(outcome.log.log_dir)
            assert read_all(outcome.log) == WHOLE
        if outcome.error is not None and outcome.failed_dir:
            assert not is_shortage(outcome.error) or code == errno.ENOSPC
        again = open_manager(fs.after_kill(), (A, B))
        live = log_named(again, TP)
        assert live is not None and read_all(live) == WHOLE, nth
        if outcome.log is not None:
            assert live.log_dir == outcome.log.log_dir, nth
    assert ended_in == {A, B}


def test_a_start_without_one_log_dir_leaves_both_sides_alone_and_the_next_one_goes_on() -> None:
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    manager.futures.create(manager.futures.name(TP, B), log.topic_id)
    manager.close()
    fs = fs.after_kill()
    fs.rename(A, "/away")
    with pytest.raises(Exception, match="/a"):
        open_manager_of(fs)
    fs.rename("/away", A)
    again = open_manager_of(fs)
    assert again.futures.going_on[TP].topic_id == TOPIC_ID and not again.removal.strays


def open_manager_of(fs: LosingFileSystem) -> LogManager:
    return LogManager.open((A, B), LogManagerConfig(1, CLUSTER_ID, SMALL, recovery_threads=1), machine(fs))


def crashed_in_the_swap(step: str) -> LosingFileSystem:
    """After the first rename ("moved") or the second ("home")."""
    fs = LosingFileSystem()
    manager, log = with_a_log(fs)
    side = manager.futures.name(TP, B)
    manager.futures.create(side, log.topic_id)
    copied(manager, log, side)
    fs.rename(log.directory, side._replace(log_dir=A).path("-moved"))
    if step == "home":
        fs.rename(side.future, side.home)
    return fs.after_kill()


def test_the_old_log_has_its_name_back_when_the_copy_is_gone_for_good() -> None:
    fs = crashed_in_the_swap("moved")
    for name in fs.listdir(B):
        if name.endswith("-future"):
            fs.rename(f"{B}/{name}", f"{B}/away")
    again = open_manager(fs, (A, B))
    live = log_named(again, TP)
    assert live is not None and live.log_dir == A and read_all(live) == WHOLE


def test_a_moved_log_waits_while_a_log_dir_is_offline() -> None:
    fs = crashed_in_the_swap("home")
    only = LogDirectory(fs, A, THREADS)
    found = find_logs(fs, (only,), lambda directory, topic_partition: "", all_dirs_answer=False)
    assert not found.logs and not found.set_aside
    assert in_dirs(fs)[A] == ["orders-0.moved"]


def with_another_topics_log(fs: LosingFileSystem) -> None:
    """A third log dir comes back, with the log of a topic of that name that was deleted long ago."""
    other = open_manager(fs, (C,))
    log = other.get_or_create(TP, OTHER_TOPIC_ID, SMALL, is_new=True)
    log.append.as_leader(batch(b"of the other topic"), 1, NOW_MS)
    other.close()


@pytest.mark.parametrize(("step", "home"), [("moved", B), ("home", B), ("gone", A)])
def test_another_topics_log_of_that_name_does_not_take_the_place_of_a_moved_one(step: str, home: str) -> None:
    fs = crashed_in_the_swap("moved" if step == "gone" else step)
    if step == "gone":
        for name in fs.listdir(B):
            if name.endswith("-future"):
                fs.rename(f"{B}/{name}", f"{B}/away")
    with_another_topics_log(fs)
    again = open_manager(fs, (A, B, C))
    live, other = again.get(TP, TOPIC_ID), again.get(TP, OTHER_TOPIC_ID)
    assert live is not None and live.log_dir == home and read_all(live) == WHOLE
    assert other is not None and other.log_dir == C


@pytest.mark.parametrize(("offline", "left"), [(A, B), (B, A)])
def test_another_topics_log_deletes_no_side_of_a_move_while_a_log_dir_is_offline(offline: str, left: str) -> None:
    fs = crashed_in_the_swap("moved")
    with_another_topics_log(fs)
    before = in_dirs(fs)
    here = [LogDirectory(fs, path, THREADS) for path in (left, C)]
    find_logs(fs, here, lambda directory, topic_partition: "", all_dirs_answer=False)
    assert in_dirs(fs) == before


def test_a_copy_beside_the_log_is_deleted_and_one_without_a_log_is_stray() -> None:
    fs = LosingFileSystem()
    manager, _ = with_a_log(fs)
    beside = manager.futures.name(TP, A)
    fs.mkdir(beside.future)
    alone = manager.futures.name(TopicPartition("gone", 1), B)
    manager.futures.create(alone, TOPIC_ID)
    manager.close()
    again = open_manager(fs.after_kill(), (A, B))
    assert not again.futures.going_on
    assert [path for path in again.removal.strays if "gone-1" in path]
    assert [path for path in again.removal.deleted.paths() if "orders-0" in path]


def test_a_name_that_is_taken_or_too_long_is_refused() -> None:
    fs = LosingFileSystem()
    manager, _ = with_a_log(fs)
    fs.mkdir(f"{B}/{TP}")
    with pytest.raises(KafkaStorageError, match="is there already"):
        manager.futures.create(manager.futures.name(TP, B), TOPIC_ID)
    with pytest.raises(InvalidTopicError, match="too long"):
        manager.futures.name(TopicPartition("t" * (MAX_NAME_CHARACTERS - 30), 0), B)


def test_a_full_disk_refuses_the_copy_and_leaves_nothing() -> None:
    fs = LosingFileSystem()
    manager, _ = with_a_log(fs)
    fs.fail_at[fs.operations + 2] = errno.ENOSPC
    with pytest.raises(KafkaStorageError) as refused:
        manager.futures.create(manager.futures.name(TP, B), TOPIC_ID)
    assert is_shortage(refused.value) and in_dirs(fs) == {A: ["orders-0"], B: []}


def test_a_log_that_starts_inside_a_batch_is_copied_as_it_is() -> None:
    fs = LosingFileSystem()
    manager = open_manager(fs, (A, B))
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True, log_dir=A)
    for n in range(4):
        log.append.as_leader(batch(b"a%d" % n, b"b%d" % n, b"c%d" % n), 3, NOW_MS)
    log.advance_log_start(4)
    log.assign_epoch(5, 12)
    records = read_all(log)
    outcome = moved(manager, log)
    assert outcome.log is not None and read_all(outcome.log) == records
    assert outcome.log.log_start_offset == 4 and outcome.log.log_end_offset == 12
