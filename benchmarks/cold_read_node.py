"""One node whose disk is slow for one topic, for benchmarks/cold_read.py: CONFIG CLUSTER_ID TOPIC BYTES_PER_S.

The page cache never holds the topic's records: a read of them takes as long as such a disk would, in the thread that
asks. 0: a disk like any other. Ends in order with SIGTERM. It imports nothing of this folder, so that the Python of
another checkout can run it: that is how a tree is measured beside the one before it.
"""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from broker.config.config import load_config
from broker.node.commands.format import format_node
from broker.node.server import open_log_dirs, run_node
from broker.node.system_environment import system_environment
from storage.disk.file_system import OsFileSystem


class SlowDisk(OsFileSystem):
    """Reads of one topic's .log files wait for the disk."""

    def __init__(self, topic: str, bytes_per_s: int) -> None:
        self._part = f"/{topic}-"
        self._bytes_per_s = bytes_per_s
        self._slow: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self._note(fd, self._part in path and path.endswith(".log"))
        return fd

    def dup(self, fd: int) -> int:
        copy = super().dup(fd)
        self._note(copy, fd in self._slow)
        return copy

    def _note(self, fd: int, is_slow: bool) -> None:
        if is_slow and self._bytes_per_s:
            self._slow.add(fd)
        else:
            self._slow.discard(fd)

    def pread(self, fd: int, size: int, at: int) -> bytes:
        if fd in self._slow:
            time.sleep(size / self._bytes_per_s)
        return super().pread(fd, size, at)

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        return None if fd in self._slow else super().pread_nowait(fd, size, at)


def main() -> None:
    """Serves until SIGTERM."""
    config_path, cluster_id, topic, bytes_per_s = sys.argv[1:5]
    logging.basicConfig(level=logging.ERROR)
    config = load_config(config_path)
    environment = replace(system_environment(), file_system=SlowDisk(topic, int(bytes_per_s)))
    if not Path(config.log_dirs[0]).exists():
        format_node(config, cluster_id, environment.file_system, environment.ids)
    log_manager = open_log_dirs(config, environment, lambda progress: None)
    sys.exit(uvloop.run(run_node(config, log_manager, environment)))


if __name__ == "__main__":
    main()
