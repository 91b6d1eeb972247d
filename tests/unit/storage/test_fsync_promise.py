"""The promise: a record whose flush has completed is there after a crash at any file operation.

A scenario with every kind of change runs once for each of its operations and is stopped there. What was promised before
is then looked for in what a power cut leaves behind: all that is not synced lost, and some random part of it lost. The
same check must catch an engine that does not sync (the mutants), or it would prove nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import pytest

from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.flush import FlushTracker
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, open_manager, read_all

OTHER = TopicPartition("orders", 1)
COMPACTED = LogConfig(segment_bytes=600, index_interval_bytes=100, cleanup_policy="compact")
CRASHES_WITH_LUCK = 4


class Promises:
    """What the scenario has promised so far: values by offset, and where each log may not have more."""

    def __init__(self) -> None:
        self.kept: dict[TopicPartition, dict[int, bytes]] = {}
        self.written: dict[TopicPartition, set[tuple[int, bytes]]] = {}


def scenario(manager: LogManager, promises: Promises, config: LogConfig) -> None:
    """Appends, rolls, flushes, truncations, checkpoints; two logs."""
    counter = 0

    def append(log: Log, count: int, epoch: int) -> None:
        nonlocal counter
        for _ in range(count):
            counter += 1
            value = b"value-%04d" % counter
            promises.written.setdefault(log.topic_partition, set()).add((log.log_end_offset, value))
            log.append_as_leader(build_batch([value], timestamps_ms=NOW_MS, keys=[b"k"]), epoch, NOW_MS)
            unflushed.setdefault(log.topic_partition, {})[log.log_end_offset - 1] = value

    def flush(log: Log) -> None:
        flushed = log.flush()
        tp = log.topic_partition
        kept = {offset: value for offset, value in unflushed.get(tp, {}).items() if offset < flushed}
        promises.kept.setdefault(tp, {}).update(kept)

    def truncate(log: Log, offset: int) -> None:
        for values in (promises.kept.get(log.topic_partition, {}), unflushed.get(log.topic_partition, {})):
            for gone in [at for at in values if at >= offset]:
                del values[gone]
        log.truncate_to(offset)

    unflushed: dict[TopicPartition, dict[int, bytes]] = {}
    one = manager.get_or_create(TP, TOPIC_ID, config)
    append(one, 3, 0)
    flush(one)
    append(one, 9, 0)
    two = manager.get_or_create(OTHER, TOPIC_ID, config)
    append(two, 2, 5)
    flush(one)
    manager.checkpoint_recovery_points()
    one.assign_epoch(1, one.log_end_offset)
    append(one, 14, 1)
    flush(two)
    flush(one)
    append(one, 3, 2)
    truncate(one, 10)
    append(one, 4, 3)
    flush(one)
    append(two, 20, 5)
    flush(two)
    manager.checkpoint_recovery_points()
    truncate(two, 3)
    append(two, 8, 6)
    flush(two)
    promises.kept.pop(OTHER)
    unflushed.pop(OTHER)
    two.truncate_fully_and_start_at(40)
    append(two, 1, 7)
    flush(two)
    append(one, 1, 4)
    manager.close(True, 9)
    promises.kept[TP][one.log_end_offset - 1] = unflushed[TP][one.log_end_offset - 1]


def run_until_crash(
    crash_at: int | None, mutate: Callable[[LosingFileSystem], None], config: LogConfig
) -> tuple[LosingFileSystem, Promises]:
    fs = LosingFileSystem()
    manager = open_manager(fs)
    mutate(fs)
    fs.operations = 0
    fs.crash_at = crash_at
    promises = Promises()
    with contextlib.suppress(Crashed):
        scenario(manager, promises, config)
    return fs, promises


def broken_promises(fs: LosingFileSystem, promises: Promises, config: LogConfig) -> list[str]:
    """What a start on this file system finds missing, changed, or made up."""
    manager = open_manager(fs, config=config)
    wrong = [f"{tp} refused: {log.error}" for tp, log in manager.offline_logs.items()]
    for tp, kept in promises.kept.items():
        log = manager.get(tp)
        found = read_all(log) if log is not None else []
        values = dict(found)
        wrong += [f"{tp}: {offset} lost" for offset, value in kept.items() if values.get(offset) != value]
        wrong += [f"{tp}: {record} made up" for record in found if record not in promises.written[tp]]
        if log is not None and [offset for offset, _ in found] != list(range(log.log_start_offset, log.log_end_offset)):
            wrong.append(f"{tp}: offsets {found} are not dense")
    manager.close(False)
    return wrong


def enumerate_crashes(
    mutate: Callable[[LosingFileSystem], None], config: LogConfig = SMALL, *, enough: int = 1_000_000
) -> tuple[int, list[str]]:
    """Crash points tried, and what was wrong at them; ends when there is `enough` of it."""
    whole, _ = run_until_crash(None, mutate, config)
    wrong: list[str] = []
    for at in range(1, whole.operations + 1):
        if len(wrong) >= enough:
            return at, wrong
        fs, promises = run_until_crash(at, mutate, config)
        survivors = [fs.after_crash()] + [fs.after_crash(Random(at * 100 + n)) for n in range(CRASHES_WITH_LUCK)]
        for n, survivor in enumerate(survivors):
            wrong += [f"crash at {fs.trace[-1]} ({n}): {what}" for what in broken_promises(survivor, promises, config)]
    return whole.operations, wrong


@pytest.mark.parametrize("config", [SMALL, COMPACTED], ids=["delete", "compact"])
def test_what_was_flushed_survives_a_crash_at_every_operation(config: LogConfig) -> None:
    tried, wrong = enumerate_crashes(lambda fs: None, config)

    assert wrong == []
    assert tried > 150


def test_mutant_without_fdatasync_is_caught() -> None:
    def mutate(fs: LosingFileSystem) -> None:
        fs.lazy_fdatasync = True

    assert enumerate_crashes(mutate, enough=1)[1]


def test_mutant_without_fsync_of_directories_is_caught() -> None:
    def mutate(fs: LosingFileSystem) -> None:
        fs.lazy_fsync_dir = True

    assert enumerate_crashes(mutate, enough=1)[1]


def test_mutant_whose_flushed_offset_advances_before_fdatasync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = FlushTracker.prepare

    def hasty(self: FlushTracker, end_offset: int, *, closing: bool = False) -> object:
        pending = honest(self, end_offset, closing=closing)
        if pending is None or closing:
            return pending
        pending.abandon()
        self.complete(pending)
        return None

    monkeypatch.setattr(FlushTracker, "prepare", hasty)

    assert enumerate_crashes(lambda fs: None, enough=1)[1]


def test_a_crash_inside_recovery_changes_nothing() -> None:
    crashed, promises = run_until_crash(120, lambda fs: None, SMALL)
    start = crashed.after_crash(Random(7))
    whole = start.clone()
    open_manager(whole).close(False)
    for at in range(1, whole.operations + 1):
        fs = start.clone()
        fs.crash_at = at
        with contextlib.suppress(Crashed):
            open_manager(fs)
        assert broken_promises(fs.after_crash(Random(at)), promises, SMALL) == []


def test_a_killed_process_leaves_records_that_are_durable_before_they_count() -> None:
    fs, promises = run_until_crash(100, lambda fs: None, SMALL)
    killed = fs.after_kill()
    manager = open_manager(killed)
    found = {log.topic_partition: read_all(log) for log in manager.logs()}
    powerless = killed.after_crash()
    again = open_manager(powerless)

    assert {log.topic_partition: read_all(log) for log in again.logs()} == found
    assert promises.kept.keys() <= found.keys()
