"""A disk in memory with a page cache: a read of bytes that were neither written nor read since `go_cold` must wait.

A read that must wait goes through `gate`, which a test may close, and is recorded with its thread. So a test sees
whether the event loop ever waited for the disk. `errors` sets errors of such reads, by the end of the file's name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from penstock.types import TopicPartition
from storage.disk.file_system import Bytes
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import TOPIC_ID

PAGE_BYTES = 512
"""Small, as the segments of tests are."""


class ColdFileSystem(LosingFileSystem):
    """A losing file system with a page cache that can go cold."""

    def __init__(self) -> None:
        super().__init__()
        self.access = threading.Event()
        self.access.set()
        self.at_gate = threading.Event()
        """Set when a read has reached the gate, whether it waits there or not."""
        self.waited: list[str] = []
        """The name of the thread of each read that had to wait for the disk."""
        self.errors: dict[str, int] = {}
        self.tells = True
        """If set, this file system says what is in its page cache; otherwise it reads as tmpfs does."""
        self._warm: set[tuple[int, int]] = set()
        self._names: dict[int, str] = {}

    def go_cold(self) -> None:
        """Empties the page cache."""
        self._warm.clear()

    def open(self, path: str, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self._names[fd] = path
        return fd

    def dup(self, fd: int) -> int:
        copy = super().dup(fd)
        self._names[copy] = self._names[fd]
        return copy

    def pread(self, fd: int, size: int, at: int) -> bytes:
        pages = self._pages(fd, size, at)
        if not pages <= self._warm:
            self.waited.append(threading.current_thread().name)
            self.at_gate.set()
            self.access.wait()
            for end, code in self.errors.items():
                if self._names[fd].endswith(end):
                    raise OSError(code, os.strerror(code), self._names[fd])
        self._warm |= pages
        return super().pread(fd, size, at)

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        if not self.tells:
            return self.pread(fd, size, at)
        warm = 0
        while warm < size and self._pages(fd, 1, at + warm) <= self._warm:
            warm += PAGE_BYTES - (at + warm) % PAGE_BYTES
        return super().pread(fd, min(warm, size), at) if warm else None

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        written = super().pwritev(fd, buffers, at)
        self._warm |= self._pages(fd, written, at)
        return written

    def _pages(self, fd: int, size: int, at: int) -> set[tuple[int, int]]:
        file = id(self._held(fd))
        return {(file, page) for page in range(at // PAGE_BYTES, (at + max(size, 1) - 1) // PAGE_BYTES + 1)}


def cold_log(fs: ColdFileSystem, partition: TopicPartition, log_dir: str = "/d") -> Log:
    """Makes a log in a directory that must exist."""
    config = LogConfig(segment_bytes=100_000, index_interval_bytes=1000)
    return Log.create(fs, f"{log_dir}/{partition}", partition, config, LogOptions(THREADS, TOPIC_ID))
