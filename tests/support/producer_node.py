"""One log of one node, to which idempotent producers write; and their batches."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import ManualClock
from penstock.record.batch import set_placement
from penstock.record.builder import build_batch
from storage.append.append_info import AppendInfo
from storage.append.producer_ids import ProducerIdConfig
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, log_named, open_manager

ME = 7


def sent(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = ME, timestamp_ms: int = NOW_MS) -> bytes:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return build_batch([b"value-00"] * count, timestamps_ms=timestamp_ms, **fields)  # type: ignore[arg-type]


def placed(records: bytes, offset: int, leader_epoch: int = 0) -> bytes:
    """As a leader sends it to a follower."""
    buffer = bytearray(records)
    set_placement(buffer, 0, offset, leader_epoch)
    return bytes(buffer)


class Node:
    """One log of one node."""

    def __init__(self, fs: LosingFileSystem | None = None, config: LogConfig = SMALL, **bounds: int) -> None:
        self.fs = fs or LosingFileSystem()
        self.clock = ManualClock(wall_ms=NOW_MS)
        self.fs.wall_ms = self.clock.wall_ms
        self.config, self._bounds = config, bounds
        self.manager = self._open()
        self.log: Log = self.manager.get_or_create(TP, TOPIC_ID, config)

    def _open(self) -> LogManager:
        return open_manager(
            self.fs, config=self.config, clock=self.clock, producer_ids=ProducerIdConfig(**self._bounds)
        )

    def send(self, *sequences: int, epoch: int = 0, producer_id: int = ME) -> AppendInfo:
        for sequence in sequences:
            info = self.log.append.as_leader(sent(sequence, epoch=epoch, producer_id=producer_id), 0, NOW_MS)
        return info

    def restart(
        self, fs: LosingFileSystem | None = None, *, clean: bool = False, between: Callable[[], None] = lambda: None
    ) -> None:
        """`between` is called between the stop and the start."""
        self.manager.close(clean)
        self.fs = fs or self.fs
        between()
        self.manager = self._open()
        log = log_named(self.manager, TP)
        assert log is not None, self.manager.table.offline
        self.log = log

    def known(self, producer_id: int = ME) -> list[tuple[int, int]]:
        """(base sequence, base offset) of the remembered batches."""
        self.log.producers.reload()
        entry = self.log.producers.known.get(producer_id)
        return [(found.base_sequence, found.base_offset) for found in entry.batches] if entry is not None else []

    def snapshots(self) -> list[int]:
        names = self.fs.listdir(self.log.directory)
        return sorted(int(name.split(".")[0]) for name in names if name.endswith(".snapshot"))
