"""A flush that is late, in its thread, while its log is deleted and another gets its name and its directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.types import TopicPartition
from storage.disk.file_names import PARTITION_METADATA
from storage.disk.partition_metadata import read_topic_id
from storage.log.flush import PendingFlush
from storage.log.log import Log
from storage.log.log_types import LogOptions
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, SMALL, batch

OLD_ID, NEW_ID = "A" * 22, "B" * 22
PARTITION = TopicPartition("t", 0)
WAIT_S = 60.0


def created(fs: FaultyFileSystem, directory: Path, topic_id: str, *, rolled: bool) -> Log:
    log = Log.create(fs, str(directory), PARTITION, SMALL, LogOptions(THREADS, topic_id=topic_id))
    log.append.as_leader(batch(b"x"), 0, NOW_MS)
    if rolled:
        log.roll()
    return log


def prepared(log: Log, *, rolled: bool) -> PendingFlush:
    pending = log.prepare_flush()
    assert pending is not None and pending.epochs and bool(pending.indexes) == rolled
    assert bool(pending.new_topic_id) != rolled, "a roll has written it"
    return pending


@pytest.mark.parametrize("rolled", [False, True])
def test_a_late_flush_of_a_deleted_log_writes_nothing_into_the_directory_of_the_next_log_of_that_name(
    tmp_path: Path, rolled: bool
) -> None:
    fs, directory = FaultyFileSystem(), tmp_path / "t-0"
    old = created(fs, directory, OLD_ID, rolled=rolled)
    late = prepared(old, rolled=rolled)
    old.abandon()
    fs.rename(str(directory), f"{directory}.x-delete")
    new = created(fs, directory, NEW_ID, rolled=rolled)
    new.flush()
    before = [fs.calls_of(operation, f"{directory}{os.sep}") for operation in ("create", "unlink", "rename")]

    late.run()
    after = [fs.calls_of(operation, f"{directory}{os.sep}") for operation in ("create", "unlink", "rename")]
    assert after == before
    assert read_topic_id(fs, str(directory)) == NEW_ID, "else the next start sets it aside as the deleted topic's"
    new.close()


def flushing(pending: PendingFlush, errors: list[Exception]) -> threading.Thread:
    def run() -> None:
        try:
            pending.run()
        except OSError as error:
            errors.append(error)

    return started(run)


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_log_is_abandoned_while_its_disk_stands_still_and_the_next_one_of_its_name_keeps_its_own_id(
    tmp_path: Path,
) -> None:
    fs, directory = FaultyFileSystem(), tmp_path / "t-0"
    old = created(fs, directory, OLD_ID, rolled=False)
    pending, errors = prepared(old, rolled=False), list[Exception]()
    with fs.standing_still("fdatasync", PARTITION_METADATA) as fault:
        late = flushing(pending, errors)
        assert fault.was_met.wait(WAIT_S)
        abandoning = started(old.abandon)
        abandoning.join(WAIT_S)
        assert not abandoning.is_alive(), "the event loop waits for the disk"
        fs.rename(str(directory), f"{directory}.x-delete")
        new = created(fs, directory, NEW_ID, rolled=False)
    late.join(WAIT_S)
    assert not late.is_alive() and not errors
    assert read_topic_id(fs, str(directory)) == NEW_ID
    new.close()


def test_a_roll_during_the_first_flush_of_a_log_and_that_flush_write_the_topic_id_one_after_the_other(
    tmp_path: Path,
) -> None:
    """Else one takes the temporary file of the other away, and the log dir passes for broken."""
    fs, directory = FaultyFileSystem(), tmp_path / "t-0"
    log = created(fs, directory, NEW_ID, rolled=False)
    pending, errors = prepared(log, rolled=False), list[Exception]()
    with fs.standing_still("fdatasync", PARTITION_METADATA) as fault:
        flush = flushing(pending, errors)
        assert fault.was_met.wait(WAIT_S)
        rolling = started(log.roll)
        rolling.join(0.1)
    for thread in (flush, rolling):
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert not errors and len(log.segments) == 2
    log.complete_flush(pending)
    log.close()
    assert read_topic_id(fs, str(directory)) == NEW_ID
