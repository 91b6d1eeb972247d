"""Flushes that a test holds up, and whoever waits for them."""

from __future__ import annotations

import asyncio
import threading

from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log.log_types import LogOptions
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, SMALL, batch, new_log


class GatedFileSystem(LosingFileSystem):
    """fdatasync waits until the test lets it through."""

    def __init__(self) -> None:
        super().__init__()
        self.access = threading.Event()
        self.access.set()
        self.syncs = 0

    def fdatasync(self, fd: int) -> None:
        self.access.wait()
        self.syncs += 1
        super().fdatasync(fd)


class Waiter:
    """Collects what a log's subscribers are told."""

    def __init__(self) -> None:
        self.reported: list[int] = []
        self._changed = asyncio.Event()

    def __call__(self, flushed_offset: int) -> None:
        self.reported.append(flushed_offset)
        self._changed.set()

    async def until(self, offset: int) -> None:
        while not self.reported or self.reported[-1] < offset:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 10)


def ready_log(fs: LosingFileSystem) -> Log:
    log = new_log(fs)
    log.append.as_leader(batch(b"first"), 0, NOW_MS)
    log.flush()
    return log


def another_log(fs: LosingFileSystem, number: int) -> Log:
    partition = TopicPartition("another", number)
    return Log.create(fs, f"/d/{partition}", partition, SMALL, LogOptions(THREADS))


def no_failure(log_dir: str, error: OSError) -> None:
    raise AssertionError(f"{log_dir}: {error}")
