"""Promises of a log dir whose disk is slow: new logs do not wait for a checkpoint, and a truncated one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.types import TopicPartition
from storage.checkpoint_file import read_offsets
from storage.file_names import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from storage.log_directory import LogDirectory
from tests.support.faulty_fs import FaultyFileSystem

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
WAIT_S = 10.0


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", [RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT])
def test_while_a_checkpoint_is_written_a_new_log_does_not_wait_and_one_that_it_claims_does(
    tmp_path: Path, name: str
) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory(fs, str(tmp_path))
    write = {
        RECOVERY_POINT_CHECKPOINT: directory.checkpoint_recovery_points,
        HIGH_WATERMARK_CHECKPOINT: directory.checkpoint_high_watermarks,
        LOG_START_CHECKPOINT: directory.checkpoint_log_starts,
    }[name]
    with fs.standing_still("fdatasync", name) as fault:
        writer = started(lambda: write(lambda: {OLD: 5}, ()))
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
