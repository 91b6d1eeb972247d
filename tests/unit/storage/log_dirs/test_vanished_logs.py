"""A log that is gone, though its log dir knows that it held flushed records, is remembered until a new one is there."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.disk.checkpoint_file import OffsetLines, read_offset_lines, write_offsets
from storage.disk.file_system import OsFileSystem
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.log_table import LogId
from storage.log_dirs.meta_properties import format_directory
from storage.tools.recover import RecoverOptions, recover
from storage.tools.target import find_target
from tests.support.machine import IDS, THREADS, machine
from tests.support.storage import TOPIC_ID

ORDERS = TopicPartition("orders", 0)
OTHER_ID = "B" * 22
FS = OsFileSystem()


def opened(path: Path) -> LogManager:
    """The log manager of a node with one log dir, formatted if need be."""
    if not (path / "d").exists():
        format_directory(FS, str(path / "d"), "cluster", 1, IDS.new_id())
    return LogManager.open([path / "d"], LogManagerConfig(1), machine(FS))


def with_records(path: Path, *, flushed: bool = True, partition: TopicPartition = ORDERS) -> LogManager:
    manager = opened(path)
    log = manager.get_or_create(partition, TOPIC_ID, LogConfig(), is_new=True)
    if flushed:
        log.append.as_leader(build_batch([b"v"], timestamps_ms=1), 0, 1)
        log.flush()
    manager.checkpoints.write_recovery_points()
    return manager


def vanishes(path: Path, *, flushed: bool = True) -> None:
    with_records(path, flushed=flushed).close(clean=False)
    shutil.rmtree(path / "d" / "orders-0")


def test_gone_log_is_remembered_by_every_start_after_a_crash_or_a_stop_in_order(tmp_path: Path) -> None:
    vanishes(tmp_path)
    for clean in (False, True, False):
        manager = opened(tmp_path)
        assert manager.table.vanished.items() == ((LogId(ORDERS, TOPIC_ID), str(tmp_path / "d" / "orders-0")),)
        manager.checkpoints.write_recovery_points()
        manager.close(clean=clean)


def test_log_that_never_held_anything_flushed_is_not_missed(tmp_path: Path) -> None:
    vanishes(tmp_path, flushed=False)
    manager = opened(tmp_path)
    assert not manager.table.vanished
    manager.close(clean=False)


def test_new_log_of_that_name_ends_it(tmp_path: Path) -> None:
    vanishes(tmp_path)
    manager = opened(tmp_path)
    manager.get_or_create(ORDERS, TOPIC_ID, LogConfig())
    assert not manager.table.vanished
    manager.checkpoints.write_recovery_points()
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


def test_log_of_a_cut_name_that_was_deleted_before_a_crash_is_not_missed(tmp_path: Path) -> None:
    """The name of its directory cannot tell the partition; the topic id in it can."""
    long_name = TopicPartition("o" * 249, 0)
    manager = with_records(tmp_path, partition=long_name)
    manager.removal.set_aside_for_deletion(long_name, TOPIC_ID)
    manager.close(clean=False)
    manager = opened(tmp_path)
    assert not manager.table.vanished
    manager.close(clean=False)


def test_gone_log_is_remembered_beside_a_log_of_another_topic_with_its_name(tmp_path: Path) -> None:
    vanishes(tmp_path)
    manager = opened(tmp_path)
    manager.get_or_create(ORDERS, OTHER_ID, LogConfig())
    assert manager.table.vanished.ids() == (LogId(ORDERS, TOPIC_ID),), "no new log of its topic is there"
    assert manager.table.vanished.get_as(ORDERS, OTHER_ID) is None
    manager.close(clean=False)


def test_lines_of_an_older_release_are_of_whoever_has_the_name(tmp_path: Path) -> None:
    vanishes(tmp_path)
    checkpoint = tmp_path / "d" / "recovery-point-offset-checkpoint"
    write_offsets(FS, str(checkpoint), {ORDERS: 1})
    manager = opened(tmp_path)
    assert manager.table.vanished.ids() == (LogId(ORDERS, ""),)
    assert manager.table.vanished.get_as(ORDERS, TOPIC_ID) == str(tmp_path / "d" / "orders-0")
    manager.checkpoints.write_recovery_points()
    manager.close(clean=False)
    manager = opened(tmp_path)
    assert manager.table.vanished.ids() == (LogId(ORDERS, ""),)
    manager.close(clean=False)


def test_checkpoint_of_an_older_release_gets_the_topic_ids_when_it_is_written_next(tmp_path: Path) -> None:
    manager = with_records(tmp_path)
    manager.close(clean=False)
    checkpoint = tmp_path / "d" / "recovery-point-offset-checkpoint"
    write_offsets(FS, str(checkpoint), {ORDERS: 1})
    opened(tmp_path).close(clean=True)
    assert read_offset_lines(FS, str(checkpoint)) == OffsetLines({ORDERS: 1}, {ORDERS: TOPIC_ID})
    shutil.rmtree(tmp_path / "d" / "orders-0")
    manager = opened(tmp_path)
    assert manager.table.vanished.ids() == (LogId(ORDERS, TOPIC_ID),)
    manager.close(clean=False)


def test_recovery_by_hand_does_not_forget_a_gone_log(tmp_path: Path) -> None:
    vanishes(tmp_path)
    list(recover(FS, find_target(FS, str(tmp_path / "d")), RecoverOptions(), THREADS, ManualClock()))
    manager = opened(tmp_path)
    assert manager.table.vanished.ids() == (LogId(ORDERS, TOPIC_ID),)
    manager.close(clean=False)
