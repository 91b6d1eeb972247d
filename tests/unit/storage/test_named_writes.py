"""A flush that is late, in its thread, while its log is deleted and another gets its name and its directory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.types import TopicPartition
from storage.file_names import PARTITION_METADATA
from storage.flush import PendingFlush
from storage.log import Log
from storage.log_types import LogOptions
from storage.partition_metadata import read_topic_id
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.storage import NOW_MS, SMALL, batch

OLD_ID, NEW_ID = "A" * 22, "B" * 22
PARTITION = TopicPartition("t", 0)


def created(fs: FaultyFileSystem, directory: Path, topic_id: str, *, rolled: bool) -> Log:
    log = Log.create(fs, str(directory), PARTITION, SMALL, LogOptions(topic_id=topic_id))
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
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


def test_a_log_that_is_abandoned_waits_for_the_small_file_that_its_flush_is_writing(tmp_path: Path) -> None:
    fs, directory = FaultyFileSystem(), tmp_path / "t-0"
    log = created(fs, directory, OLD_ID, rolled=False)
    pending = prepared(log, rolled=False)
    with fs.standing_still("fdatasync", PARTITION_METADATA) as fault:
        flushing = threading.Thread(target=pending.run, daemon=True)
        flushing.start()
        assert fault.was_met.wait(10)
        abandoning = threading.Thread(target=log.abandon, daemon=True)
        abandoning.start()
        abandoning.join(0.05)
        assert abandoning.is_alive()
    for thread in (abandoning, flushing):
        thread.join(10)
        assert not thread.is_alive()
