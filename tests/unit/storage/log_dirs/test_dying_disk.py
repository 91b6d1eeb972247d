"""A disk that is dying fails one call at once and hangs in another: its log dir fails without waiting for that."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import KafkaStorageError
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
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager

PARTITION = TopicPartition("t", 0)
WAIT_S = 60.0


def started(work: threading.Thread) -> threading.Thread:
    work.start()
    return work


def test_a_log_dir_fails_at_once_while_a_removal_in_it_hangs(tmp_path: Path) -> None:
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(3):
        log.append.as_leader(batch(b"value"), 1, NOW_MS)
        log.roll()
    log.flush()
    log.full.remove_oldest(2)
    with fs.standing_still("rename", ".deleted") as fault:
        removal = started(threading.Thread(target=log.full.run_file_changes, daemon=True))
        assert fault.was_met.wait(WAIT_S)
        error = OSError(errno.EIO, "dying")
        failing = started(threading.Thread(target=manager.fail_log_dir, args=(data, error), daemon=True))
        failing.join(WAIT_S)
        assert not failing.is_alive(), "the event loop waits for the disk"
        renames = fs.calls_of("rename", ".deleted")
    removal.join(WAIT_S)
    assert not removal.is_alive()
    assert manager.table.offline.get(PARTITION, TOPIC_ID) is not None
    assert fs.calls_of("rename", ".log.deleted") == renames == 1, "the second removal is not begun"
    manager.close(clean=False)


def test_a_log_dir_fails_at_once_while_a_flush_in_it_hangs_with_a_small_file(tmp_path: Path) -> None:
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(PARTITION, TOPIC_ID, SMALL)
    log.append.as_leader(batch(b"value"), 1, NOW_MS)
    pending = log.prepare_flush()
    assert pending is not None
    with fs.standing_still("rename", "leader-epoch-checkpoint") as fault:
        flush = started(threading.Thread(target=pending.run, daemon=True))
        assert fault.was_met.wait(WAIT_S)
        error = OSError(errno.EIO, "dying")
        failing = started(threading.Thread(target=manager.fail_log_dir, args=(data, error), daemon=True))
        failing.join(WAIT_S)
        assert not failing.is_alive(), "the event loop waits for the disk"
    flush.join(WAIT_S)
    assert not flush.is_alive()
    manager.close(clean=False)


@pytest.mark.parametrize("name", [RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT])
def test_a_checkpoint_that_waits_while_its_log_fails_keeps_its_line(tmp_path: Path, name: str) -> None:
    """Without it the next start takes flushed records that the disk has lost for a torn tail."""
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(PARTITION, TOPIC_ID, SMALL)
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    log.flush()
    log.advance_log_start(1)
    checkpoints = manager.checkpoints
    for write in (checkpoints.write_recovery_points, checkpoints.write_log_starts):
        write()
    checkpoints.write_high_watermarks(lambda: {LogId(PARTITION, TOPIC_ID): 2})
    before = read_offsets(fs, f"{data}/{name}")
    assert before and before[PARTITION]
    other = LOG_START_CHECKPOINT if name == HIGH_WATERMARK_CHECKPOINT else HIGH_WATERMARK_CHECKPOINT
    writes: dict[str, Callable[[], object]] = {
        RECOVERY_POINT_CHECKPOINT: lambda: checkpoints.try_recovery_points(data),
        LOG_START_CHECKPOINT: lambda: checkpoints.try_log_starts(data),
        HIGH_WATERMARK_CHECKPOINT: lambda: checkpoints.try_high_watermarks(data, dict),
    }
    directory = manager.checkpoints._directories[data]
    with fs.standing_still("fdatasync", other) as fault:
        lines = {TopicPartition("t", 1): 1}
        slow = (
            directory.checkpoint_log_starts if other == LOG_START_CHECKPOINT else directory.checkpoint_high_watermarks
        )
        writer = started(threading.Thread(target=_quietly(lambda: slow(lambda: lines, tuple)), daemon=True))
        assert fault.was_met.wait(WAIT_S)
        waiting = started(threading.Thread(target=writes[name], daemon=True))
        waiting.join(0.05)
        assert waiting.is_alive()
        why = KafkaStorageError("damaged")  # the log alone: a dir that has failed takes no checkpoint any more
        manager.table.take_offline(log, why)
    for thread in (writer, waiting):
        thread.join(WAIT_S)
    assert read_offsets(fs, f"{data}/{name}") == before
    manager.close(clean=False)


@pytest.mark.parametrize(
    "name",
    [RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT],
)
def test_a_checkpoint_that_is_late_in_a_failed_log_dir_does_not_undo_a_repair(tmp_path: Path, name: str) -> None:
    """The lock is given back when a dir fails, and `penstock log recover` lowers the checkpoints BEFORE it cuts."""
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(PARTITION, TOPIC_ID, SMALL)
    log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
    log.flush()
    log.advance_log_start(1)
    checkpoints, directory = manager.checkpoints, manager.checkpoints._directories[data]
    cleaned = directory.cleaner_checkpoint
    write: dict[str, Callable[[], object]] = {
        RECOVERY_POINT_CHECKPOINT: lambda: checkpoints.try_recovery_points(data),
        LOG_START_CHECKPOINT: lambda: checkpoints.try_log_starts(data),
        HIGH_WATERMARK_CHECKPOINT: lambda: directory.checkpoint_high_watermarks(lambda: {PARTITION: 2}, tuple),
        CLEANER_OFFSET_CHECKPOINT: lambda: cleaned.put(PARTITION, 1, cleaned.generation(PARTITION)),
    }
    with fs.standing_still("fdatasync", name) as fault:
        late = started(threading.Thread(target=_quietly(write[name]), daemon=True))
        assert fault.was_met.wait(WAIT_S)
        manager.fail_log_dir(data, OSError(errno.EIO, "dying"))
        repair = LogDirectory(FaultyFileSystem(), data, THREADS)
        repair.lower_checkpoints(PARTITION, 0)
    late.join(WAIT_S)
    assert not late.is_alive()
    assert not (read_offsets(fs, f"{data}/{name}") or {}).get(PARTITION)
    repair.close(clean=False, broker_epoch=-1)
    manager.close(clean=False)


def _quietly(write: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(OSError):
            write()

    return run
