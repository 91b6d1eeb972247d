"""An idle partition costs no descriptor and no index; and nobody notices when it is used again."""

from __future__ import annotations

import pytest

from penstock.clock import ManualClock
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager
from tests.support.look_ups import offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, TOPIC_ID, batch, open_manager, read_all

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000)
"""A segment is more than one chunk of a scan, so that its index counts."""
RECORDS = 100
"""In three segments: the newest holds 24, about 12 KiB."""
INDEX = "/d/t-0/00000000000000000076.index"
TP = TopicPartition("t", 0)


def value(n: int) -> bytes:
    return b"%04d" % n + b"x" * 440


def filled(clean: bool = True, logs: int = 1) -> LosingFileSystem:
    fs = LosingFileSystem()
    manager = open_manager(fs, config=CONFIG)
    for partition in range(logs):
        log = manager.get_or_create(TopicPartition("t", partition), TOPIC_ID, CONFIG)
        for n in range(RECORDS):
            log.append.as_leader(batch(value(n), timestamp_ms=NOW_MS + n), 0, NOW_MS)
    manager.close(clean)
    return fs.clone()


def reopened(fs: LosingFileSystem, **more: object) -> LogManager:
    return open_manager(fs, config=CONFIG, clock=ManualClock(), **more)


def loaded(log: Log) -> list[bool]:
    return [segment.indexes.loaded for segment in log.segments]


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_start_no_log_has_a_file_open(clean: bool) -> None:
    fs = filled(clean, logs=5)
    manager = reopened(fs)

    assert fs.open_descriptors == 1, "the lock of the dir"
    assert manager.open_files.statistics().open == 0
    assert [log.log_end_offset for log in manager.logs()] == [RECORDS] * 5


def test_after_a_clean_start_no_index_is_in_memory_and_none_was_read_but_its_last_entry() -> None:
    fs = filled()
    read: list[str] = []
    fs.read_file, original = lambda path: read.append(path) or original(path), fs.read_file  # type: ignore[func-returns-value,method-assign]
    log = reopened(fs).logs()[0]

    assert loaded(log) == [False] * 3
    assert log.segments[-1].size_bytes > 8 * 1024
    assert not [path for path in read if "index" in path]


def test_an_idle_log_goes_on_where_it_was() -> None:
    fs = filled()
    manager = reopened(fs)
    log = manager.logs()[0]
    for n in range(RECORDS, RECORDS + 30):
        log.append.as_leader(batch(value(n), timestamp_ms=NOW_MS + n), 0, NOW_MS)
    log.flush()

    assert [content for _, content in read_all(log)] == [value(n) for n in range(RECORDS + 30)]
    for n in (0, 75, 76, 99, 100, 129):
        found = offset_for_timestamp(log, NOW_MS + n)
        assert found is not None and found.offset == n
    assert log.statistics().index_rebuilds == 0
    manager.close(True)
    assert [content for _, content in read_all(reopened(fs).logs()[0])] == [value(n) for n in range(RECORDS + 30)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda fs: fs.unlink(INDEX),
        lambda fs: fs.cut(INDEX, 0),
        lambda fs: fs.cut(INDEX, fs.size(INDEX) - 3),
        lambda fs: fs.damage(INDEX, fs.size(INDEX) - 1, 0xFF),
        lambda fs: fs.damage(INDEX, fs.size(INDEX) - 4, 0x80),
        lambda fs: fs.damage(INDEX, fs.size(INDEX) - 8, 0x80),
        lambda fs: fs.cut(INDEX, 8),
    ],
    ids=["missing", "empty", "cut", "wrong position", "negative", "wrong offset", "old"],
)
def test_a_wrong_index_of_an_idle_log_costs_time_only(damage) -> None:  # type: ignore[no-untyped-def]
    fs = filled()
    damage(fs)
    manager = reopened(fs)
    log = manager.logs()[0]

    assert manager.was_clean_shutdown and not manager.table.offline
    log.append.as_leader(batch(value(RECORDS), timestamp_ms=NOW_MS + RECORDS), 0, NOW_MS)
    assert [content for _, content in read_all(log)] == [value(n) for n in range(RECORDS + 1)]
    for n in (0, 76, 90, 100):
        found = offset_for_timestamp(log, NOW_MS + n)
        assert found is not None and found.offset == n


def test_many_logs_in_use_share_few_open_files() -> None:
    fs = filled(logs=12)
    manager = reopened(fs, open_files_max=4)
    for n in range(RECORDS, RECORDS + 60):
        for log in manager.logs():
            log.append.as_leader(batch(value(n), timestamp_ms=NOW_MS + n), 0, NOW_MS)
            log.flush()
            log.reader.read(n - RECORDS, 1000)
            assert fs.open_descriptors <= 1 + 4 + 2, "the lock, the limit, and one or two that were just used"

    assert manager.open_files.statistics().evicted > 1000
    for log in manager.logs():
        assert [content for _, content in read_all(log)] == [value(n) for n in range(RECORDS + 60)]
        assert log.statistics().index_rebuilds == 0
    manager.close(True)
    assert fs.open_descriptors == 0
    for log in reopened(fs.after_crash()).logs():
        assert len(read_all(log)) == RECORDS + 60


def test_what_is_not_durable_keeps_its_file_open_within_reason() -> None:
    fs = filled(logs=12)
    manager = reopened(fs, open_files_max=4, flush_policy="os")
    for log in manager.logs():
        log.append.as_leader(batch(value(RECORDS)), 0, NOW_MS)
    assert 4 < manager.open_files.statistics().open <= 7
    for log in manager.logs():
        log.flush()
    for log in manager.logs()[:2]:
        log.reader.read(0, 1000)

    assert manager.open_files.statistics().open <= 4
    for log in reopened(fs.after_crash()).logs():
        assert len(read_all(log)) == RECORDS + 1


def test_logs_that_leave_leave_the_ring() -> None:
    fs = filled(logs=3)
    manager = reopened(fs)
    for log in manager.logs():
        read_all(log)
    assert manager.open_files.statistics().open == 9
    manager.removal.delete(TP, TOPIC_ID)
    log = manager.logs()[0]
    log.truncate_to(50)
    log.full.remove_oldest(1)
    log.full.run_file_changes()
    log.truncate_fully_and_start_at(7)

    assert manager.open_files.statistics().open == 3 + 1 == fs.open_descriptors - 1
    manager.close(False)
    assert manager.open_files.statistics().open == 0 == fs.open_descriptors
