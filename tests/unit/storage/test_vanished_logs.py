"""A log that is gone, though its log dir knows that it held flushed records, is remembered until a new one is there."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.file_system import OsFileSystem
from storage.log_config import LogConfig
from storage.log_manager import LogManager, LogManagerConfig
from storage.meta_properties import format_directory
from tests.support.storage import TOPIC_ID

ORDERS = TopicPartition("orders", 0)
FS = OsFileSystem()


def opened(path: Path) -> LogManager:
    """The log manager of a node with one log dir, formatted if need be."""
    if not (path / "d").exists():
        format_directory(FS, str(path / "d"), "cluster", 1)
    return LogManager.open([path / "d"], LogManagerConfig(1), FS, ManualClock())


def with_records(path: Path, *, flushed: bool = True) -> LogManager:
    manager = opened(path)
    log = manager.get_or_create(ORDERS, "id", LogConfig(), is_new=True)
    if flushed:
        log.append_as_leader(build_batch([b"v"], timestamps_ms=1), 0, 1)
        log.flush()
    manager.checkpoint_recovery_points()
    return manager


def vanishes(path: Path, *, flushed: bool = True) -> None:
    with_records(path, flushed=flushed).close(clean=False)
    shutil.rmtree(path / "d" / "orders-0")


def test_gone_log_is_remembered_by_every_start_after_a_crash_or_a_stop_in_order(tmp_path: Path) -> None:
    vanishes(tmp_path)
    for clean in (False, True, False):
        manager = opened(tmp_path)
        assert manager.table.vanished == {ORDERS: str(tmp_path / "d" / "orders-0")}
        manager.checkpoint_recovery_points()
        manager.close(clean=clean)


def test_log_that_never_held_anything_flushed_is_not_missed(tmp_path: Path) -> None:
    vanishes(tmp_path, flushed=False)
    manager = opened(tmp_path)
    assert not manager.table.vanished
    manager.close(clean=False)


def test_new_log_of_that_name_ends_it(tmp_path: Path) -> None:
    vanishes(tmp_path)
    manager = opened(tmp_path)
    manager.get_or_create(ORDERS, "id", LogConfig())
    assert not manager.table.vanished
    manager.checkpoint_recovery_points()
    manager.close(clean=False)
    shutil.rmtree(tmp_path / "d" / "orders-0")
    manager = opened(tmp_path)
    assert not manager.table.vanished, "the second one held nothing"
    manager.close(clean=False)


def test_log_that_was_deleted_before_a_crash_is_not_missed(tmp_path: Path) -> None:
    manager = with_records(tmp_path)
    manager.removal.set_aside_for_deletion(ORDERS, TOPIC_ID)
    manager.close(clean=False)
    manager = opened(tmp_path)
    assert not manager.table.vanished
    manager.close(clean=False)
