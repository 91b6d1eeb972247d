"""A log start that was written stays after a power cut, although records below it were never flushed here.

That is a replica outside of the ISR: its leader has deleted records that it holds, and has not flushed yet.
"""

from __future__ import annotations

import errno

import pytest

from penstock.errors import KafkaStorageError
from storage.disk.disk_errors import is_disk_full
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, log_named, open_manager, read_all

START, END = 4, 5
"""All in one segment: a roll would make names durable."""


def append(log: Log, count: int) -> None:
    for n in range(log.log_end_offset, log.log_end_offset + count):
        log.append.as_leader(batch(b"value-%02d" % n), 3, NOW_MS)


def deleted_before_the_flush(flushed: int) -> LosingFileSystem:
    """The disk after a power cut: the log start was written, and records below it were not."""
    fs = LosingFileSystem()
    manager = open_manager(fs)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True)
    append(log, flushed)
    if flushed:  # else not even the name of the segment is durable
        log.flush()
    append(log, END - flushed)
    log.advance_log_start(START)
    written = log.written_start.note()
    manager.checkpoints.write_log_starts()
    written()
    assert log.written_start.durable == START
    return fs.after_crash()


def started(fs: LosingFileSystem) -> tuple[LogManager, Log]:
    manager = open_manager(fs)
    log = log_named(manager, TP)
    assert log is not None, list(manager.table.offline.values())
    return manager, log


@pytest.mark.parametrize("flushed", [0, 2, START - 1])
def test_a_written_log_start_stays_when_a_power_cut_takes_records_below_it(flushed: int) -> None:
    fs = deleted_before_the_flush(flushed)
    for _ in range(2):
        _, log = started(fs)

        assert (log.log_start_offset, log.log_end_offset, log.written_start.durable) == (START, START, START)
        fs = fs.after_crash()


def test_a_log_that_holds_its_written_log_start_stays_as_it_is() -> None:
    _, log = started(deleted_before_the_flush(END))

    assert read_all(log) == [(START, b"value-04")]


@pytest.mark.parametrize("flushed", [0, 2])
def test_what_is_flushed_after_that_start_is_there_after_the_next_power_cut(flushed: int) -> None:
    """A line above the log end would hide it: the next start would take it for a log start."""
    fs = deleted_before_the_flush(flushed)
    _, log = started(fs)
    append(log, 7)
    log.flush()
    written = read_all(log)
    _, log = started(fs.after_crash())

    assert read_all(log) == written
    assert len(written) == 7


@pytest.mark.parametrize("flushed", [0, 2])
def test_a_power_cut_at_any_operation_of_that_start_refuses_nothing(flushed: int) -> None:
    """No recovery point may claim the log start BEFORE the segment that begins there is durable."""
    disks: list[LosingFileSystem] = []
    fs = deleted_before_the_flush(flushed)
    fs.watch = lambda now: disks.append(now.after_crash())
    started(fs)

    assert len(disks) > 5
    for disk in [*disks, fs.after_crash()]:
        _, log = started(disk)
        assert log.log_start_offset == log.log_end_offset == START, "a second power cut does not take it back"
        append(log, 1)
        assert log.flush() == log.log_start_offset + 1


GROWING = ("create", "mkdir", "write", "rename")


def full_from(disk: LosingFileSystem, number: int) -> LosingFileSystem:
    """The disk has no room from an operation of the start on."""
    fs = disk.snapshot()

    def fill(now: LosingFileSystem) -> None:
        if now.operations >= number:
            now.fail_on = dict.fromkeys(GROWING, errno.ENOSPC)

    fs.watch = fill
    return fs


@pytest.mark.parametrize("flushed", [0, 2])
def test_a_disk_that_is_full_takes_only_that_log_offline_and_the_next_start_with_room_heals_it(flushed: int) -> None:
    disk = deleted_before_the_flush(flushed)
    counted = disk.snapshot()
    started(counted)
    refused = 0
    for number in range(counted.operations):
        fs = full_from(disk, number)
        manager = open_manager(fs)
        assert not manager.offline_log_dirs, "others in the log dir go on"
        for offline in manager.table.offline.values():
            refused += 1
            assert isinstance(offline.error, KafkaStorageError) and is_disk_full(offline.error)
            assert offline.error.args[0].startswith("/d/orders-0: cannot ") and "free space" in str(offline.error)
        fs.watch, fs.fail_on = None, {}
        manager.checkpoints.write_recovery_points()
        manager.checkpoints.write_log_starts()
        for survivor in (fs.after_kill().snapshot(), fs.after_crash()):
            _, log = started(survivor)
            assert (log.log_start_offset, log.log_end_offset, log.written_start.durable) == (START, START, START)
            append(log, 1)
            assert log.flush() == START + 1
    assert refused >= 3
