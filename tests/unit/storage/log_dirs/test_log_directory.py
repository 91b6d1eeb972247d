"""Promises of a log dir whose disk is slow: new logs do not wait for a checkpoint, and a truncated one does."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from penstock.types import TopicPartition
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import LogId
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS
from tests.support.storage import TOPIC_ID

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
WAIT_S = 60.0


def by_id(offsets: Mapping[TopicPartition, int]) -> dict[LogId, int]:
    return {LogId(tp, TOPIC_ID): offset for tp, offset in offsets.items()}


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", [RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT])
def test_while_a_checkpoint_is_written_a_new_log_does_not_wait_and_one_that_it_claims_does(
    tmp_path: Path, name: str
) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    write = {
        RECOVERY_POINT_CHECKPOINT: lambda read, kept: directory.checkpoint_recovery_points(lambda: by_id(read()), kept),
        HIGH_WATERMARK_CHECKPOINT: directory.checkpoint_high_watermarks,
        LOG_START_CHECKPOINT: directory.checkpoint_log_starts,
    }[name]
    with fs.standing_still("fdatasync", name) as fault:
        writer = started(lambda: write(lambda: {OLD: 5}, tuple))
        assert fault.was_met.wait(WAIT_S)
        created = started(lambda: directory.lower_checkpoints(NEW, 0))
        created.join(WAIT_S)
        assert not created.is_alive(), "a new log waits for the disk"
        truncated = started(lambda: directory.lower_checkpoints(OLD, 3))
        truncated.join(0.05)
        assert truncated.is_alive(), "the file may claim 5 at any moment"
    for thread in (writer, truncated):
        thread.join(WAIT_S)
    assert read_offsets(fs, str(tmp_path / name)) == {OLD: 3}
    directory.close(clean=False, broker_epoch=0)


def test_a_new_log_does_not_wait_for_the_line_of_a_cleaned_log_and_a_truncation_of_that_one_does(
    tmp_path: Path,
) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    cleaned = directory.cleaner_checkpoint
    with fs.standing_still("fdatasync", CLEANER_OFFSET_CHECKPOINT) as fault:
        writer = started(lambda: cleaned.put(OLD, 5, cleaned.generation(OLD)))
        assert fault.was_met.wait(WAIT_S)
        for unclaimed in (lambda: directory.lower_checkpoints(NEW, 0), lambda: cleaned.remove(NEW)):
            thread = started(unclaimed)
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a new log waits for the disk"
        truncated = started(lambda: directory.lower_checkpoints(OLD, 3))
        truncated.join(0.05)
        assert truncated.is_alive(), "the file may say 5 at any moment"
    for thread in (writer, truncated):
        thread.join(WAIT_S)
    assert read_offsets(fs, str(tmp_path / CLEANER_OFFSET_CHECKPOINT)) == {OLD: 3}
    assert not cleaned.put(OLD, 5, 0), "that pass began before the truncation"
    directory.close(clean=False, broker_epoch=0)


@pytest.mark.parametrize(
    "name", [RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT]
)
def test_a_checkpoint_whose_directory_found_no_descriptor_counts_as_written_and_as_not_written(
    tmp_path: Path, name: str
) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    write = {
        RECOVERY_POINT_CHECKPOINT: lambda offset: directory.checkpoint_recovery_points(
            lambda: by_id({OLD: offset}), tuple
        ),
        HIGH_WATERMARK_CHECKPOINT: lambda offset: directory.checkpoint_high_watermarks(lambda: {OLD: offset}, tuple),
        LOG_START_CHECKPOINT: lambda offset: directory.checkpoint_log_starts(lambda: {OLD: offset}, tuple),
        CLEANER_OFFSET_CHECKPOINT: lambda offset: directory.cleaner_checkpoint.put(OLD, offset, 0),
    }[name]
    write(5)
    for offset in (9, 7):
        with fs.failing("fsync_dir", str(tmp_path), errno.ENFILE), pytest.raises(OSError):
            write(offset)
    directory.lower_checkpoints(OLD, 6)
    assert read_offsets(fs, str(tmp_path / name)) == {OLD: 6}, "a truncation to 6 leaves no record at 7"
    before = fs.calls_of("fsync_dir", str(tmp_path))
    directory.lower_checkpoints(OLD, 6)
    assert fs.calls_of("fsync_dir", str(tmp_path)) == before, "nothing is in doubt any more"
    directory.close(clean=False, broker_epoch=0)


def test_a_truncation_keeps_the_lines_of_other_logs_that_are_in_doubt(tmp_path: Path) -> None:
    """There was no good checkpoint: one without their lines would let rot in them pass for a torn tail."""
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(b"damaged")
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    with fs.failing("fsync_dir", str(tmp_path), errno.ENFILE), pytest.raises(OSError):
        directory.checkpoint_recovery_points(lambda: by_id({OLD: 5, NEW: 4}), tuple)
    directory.lower_checkpoints(OLD, 3)
    assert read_offsets(fs, str(tmp_path / RECOVERY_POINT_CHECKPOINT)) == {OLD: 3, NEW: 4}
    directory.close(clean=False, broker_epoch=0)


def test_cuts_that_are_expected_together_share_one_write_of_each_checkpoint(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    logs = [TopicPartition("t", number) for number in range(42)]
    not_cut, superseded = logs[40:]
    directory.checkpoint_recovery_points(lambda: by_id(dict.fromkeys(logs, 9)), tuple)
    directory.checkpoint_high_watermarks(lambda: dict.fromkeys(logs, 8), tuple)
    before = fs.calls_of("fsync_dir", str(tmp_path))
    for log in logs[:40]:
        directory.expect_cut(log, 5, lambda: True)
    directory.expect_cut(superseded, 5, lambda: False)

    for done, log in enumerate(logs[:40]):
        directory.lower_checkpoints(log, 5)
        for name, offset in ((RECOVERY_POINT_CHECKPOINT, 9), (HIGH_WATERMARK_CHECKPOINT, 8)):
            lines = read_offsets(fs, str(tmp_path / name)) or {}
            assert all(lines[cut] <= 5 for cut in logs[: done + 1]), "BEFORE any record of it is cut"
            assert lines[not_cut] == lines[superseded] == offset

    assert fs.calls_of("fsync_dir", str(tmp_path)) == before + 2, "one write for each of the two files"
    directory.close(clean=False, broker_epoch=0)


def test_a_cut_that_was_expected_lowers_its_line_again_when_a_checkpoint_came_between(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path), THREADS)
    for key in (OLD, NEW):
        directory.expect_cut(key, 3, lambda: True)
    directory.checkpoint_recovery_points(lambda: by_id({OLD: 5, NEW: 5}), tuple)
    directory.lower_checkpoints(OLD, 3)
    assert read_offsets(fs, str(tmp_path / RECOVERY_POINT_CHECKPOINT)) == {OLD: 3, NEW: 3}
    directory.checkpoint_recovery_points(lambda: by_id({OLD: 3, NEW: 5}), tuple)
    directory.lower_checkpoints(NEW, 2)
    assert read_offsets(fs, str(tmp_path / RECOVERY_POINT_CHECKPOINT)) == {OLD: 3, NEW: 2}
    directory.lower_checkpoints(OLD, 1)
    assert read_offsets(fs, str(tmp_path / RECOVERY_POINT_CHECKPOINT)) == {OLD: 1, NEW: 2}, "it was cut before"
    directory.close(clean=False, broker_epoch=0)
