"""Small makers for tests of storage: record batches, log dirs on a losing file system, and reading a log whole."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.clock import Clock, ManualClock
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from storage.recovery.recovery import LastKnown
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS, THREADS, machine

TP = TopicPartition("orders", 0)
TOPIC_ID = "A" * 22
CLUSTER_ID = "C" * 22
NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
"""About six small batches to a segment, an index entry for every other one."""


def batch(*values: bytes, timestamp_ms: int = NOW_MS, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    return build_batch(values, timestamps_ms=timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def new_log(fs: LosingFileSystem, config: LogConfig = SMALL, **options: object) -> Log:
    """A log in /d/orders-0, whose parent is durable."""
    if not fs.exists("/d"):
        fs.mkdir("/d")
        fs.fsync_dir("/")
    return Log.create(fs, "/d/orders-0", TP, config, LogOptions(THREADS, topic_id=TOPIC_ID, **options))  # type: ignore[arg-type]


def filled(fs: LosingFileSystem, count: int, config: LogConfig = SMALL, epoch: int = 0) -> Log:
    """A new log with `count` records, of which none is flushed; each is a batch."""
    log = new_log(fs, config)
    for n in range(count):
        log.append.as_leader(batch(b"value-%02d" % n, timestamp_ms=NOW_MS + n), epoch, NOW_MS)
    return log


def reopened(
    fs: LosingFileSystem, recovery_point: int | None, *, clean: bool = False, config: LogConfig = SMALL
) -> Log:
    return Log(fs, "/d/orders-0", TP, config, LogOptions(THREADS, last_known=LastKnown(clean, recovery_point)))


def log_named(manager: LogManager, topic_partition: TopicPartition) -> Log | None:
    """The log of that name, of whatever topic id; fails if there are two."""
    named = tuple(manager.table.logs.named(topic_partition).values())
    assert len(named) < 2, named
    return named[0] if named else None


def read_all(log: Log, max_bytes: int = 300) -> list[tuple[int, bytes]]:
    """(offset, value) of every record, by consecutive reads; checksums are checked."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.reader.read(offset, max_bytes)
        columns = read_columns(fetched.records, from_offset=offset)
        found += zip(columns.offsets, columns.values, strict=True)
        if fetched.next_offset <= offset:
            break
        offset = fetched.next_offset
    return found


def open_manager(
    fs: LosingFileSystem,
    dirs: Sequence[str] = ("/d",),
    config: LogConfig = SMALL,
    *,
    clock: Clock | None = None,
    recovery_threads: int = 1,
    **more: object,
) -> LogManager:
    """The node's logs; formats what is not there. One thread, so that operations are always numbered alike."""
    for path in dirs:
        if not fs.exists(path) or not fs.exists(f"{path}/meta.properties"):
            format_directory(fs, path, CLUSTER_ID, 1, IDS.new_id())
    settings = LogManagerConfig(1, CLUSTER_ID, config, recovery_threads=recovery_threads, **more)  # type: ignore[arg-type]
    return LogManager.open(dirs, settings, machine(fs, clock or ManualClock()))
