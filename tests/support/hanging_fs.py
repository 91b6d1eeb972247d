"""The file system of a real process, with log dirs that hang: while `DIR.hangs` stands beside a log dir, no sync of it
returns, no rename, no deletion, and no read of what is not in the page cache.

Writes go to the page cache as ever: beside a disk where they hang, too, a node promises nothing (ADR 0014). Another
process makes and removes the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from storage.disk.file_system import OsFileSystem

LOOK_SECONDS = 0.05


def flag_of(log_dir: Path | str) -> Path:
    """The file that makes a log dir hang."""
    return Path(f"{log_dir}.hangs")


class HangingFileSystem(OsFileSystem):
    """Any thread may call it."""

    def __init__(self, log_dirs: Sequence[str]) -> None:
        self._flags = {os.path.join(log_dir, ""): str(flag_of(log_dir)) for log_dir in log_dirs}
        self._paths: dict[int, str] = {}

    def _pass(self, path: str) -> None:
        for log_dir, flag in self._flags.items():
            if path.startswith(log_dir):
                while os.path.exists(flag):
                    time.sleep(LOOK_SECONDS)

    def open(self, path: str, *, create: bool = False) -> int:
        return self._held(super().open(path, create=create), path)

    def dup(self, fd: int) -> int:
        return self._held(super().dup(fd), self._paths[fd])

    def _held(self, fd: int, path: str) -> int:
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, size: int, at: int) -> bytes:
        self._pass(self._paths[fd])
        return super().pread(fd, size, at)

    def fdatasync(self, fd: int) -> None:
        self._pass(self._paths[fd])
        super().fdatasync(fd)

    def fsync_dir(self, path: str) -> None:
        self._pass(os.path.join(path, ""))
        super().fsync_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._pass(target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._pass(path)
        super().unlink(path)

    def rmdir(self, path: str) -> None:
        self._pass(path)
        super().rmdir(path)
