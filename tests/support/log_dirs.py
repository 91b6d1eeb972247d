"""Log dirs on the real disk, as a node leaves them, and ways to damage them: for tests of `penstock log`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.machine import IDS, machine
from tests.support.storage import CLUSTER_ID, NOW_MS, SMALL, TOPIC_ID, TP, batch

BATCHES = 20
FIRST, SECOND, THIRD = (f"{base:020d}.log" for base in (0, 7, 14))
BATCH_BYTES = len(batch(b"value-00"))
OTHER = TopicPartition("other", 0)


def make_log_dir(path: Path, *, clean: bool = True, flushed: int = BATCHES, producers: int = 0) -> Path:
    """orders-0 with three segments, 0..6, 7..13 and 14..19, of two epochs; and other-0, empty.

    Not clean: the process ends when `flushed` of the batches were flushed and checkpointed. `producers`: so many
    idempotent ones write in turn.
    """
    fs = OsFileSystem()
    format_directory(fs, str(path), CLUSTER_ID, 1, IDS.new_id())
    manager = LogManager.open([path], LogManagerConfig(1, CLUSTER_ID, SMALL), machine(fs))
    manager.get_or_create(OTHER, TOPIC_ID, SMALL, is_new=True).flush()
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, is_new=True)
    for n in range(BATCHES):
        fields = (
            {"producer_id": n % producers, "producer_epoch": 0, "base_sequence": n // producers} if producers else {}
        )
        records = build_batch([b"value-%02d" % n], timestamps_ms=NOW_MS + n, **fields)  # type: ignore[arg-type]
        log.append.as_leader(records, n // 8, NOW_MS)
        if n + 1 == flushed:
            log.flush()
            manager.checkpoints.write_recovery_points()
    manager.close(clean=clean, broker_epoch=7)
    return path


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Change bits of one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def contents(path: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def open_values(path: Path) -> list[bytes]:
    """The values that a node reads from orders-0 after a start on the directory; it is closed again."""
    from tests.support.storage import read_all

    manager = LogManager.open([path], LogManagerConfig(1, CLUSTER_ID, SMALL), machine())
    try:
        log = manager.get(TP, TOPIC_ID)
        assert log is not None, manager.table.offline
        return [value for _, value in read_all(log)]
    finally:
        manager.close(clean=False)


Damage = Callable[[Path], None]
