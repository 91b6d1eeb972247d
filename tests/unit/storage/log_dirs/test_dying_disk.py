"""A disk that is dying fails one call at once and hangs in another: its log dir fails without waiting for that."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

from penstock.types import TopicPartition
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager

PARTITION = TopicPartition("t", 0)
WAIT_S = 10.0


def started(work: threading.Thread) -> threading.Thread:
    work.start()
    return work


def test_a_log_dir_fails_at_once_while_a_removal_in_it_hangs(tmp_path: Path) -> None:
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(3):
        log.append_as_leader(batch(b"value"), 1, NOW_MS)
        log.roll()
    log.flush()
    log.remove_oldest(2)
    with fs.standing_still("rename", ".deleted") as fault:
        removal = started(threading.Thread(target=log.run_file_changes, daemon=True))
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
    log.append_as_leader(batch(b"value"), 1, NOW_MS)
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
