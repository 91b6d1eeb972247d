"""Passes every file operation on and records the changes, so that a recovery can report what it did, or would do.

A small file is written under another name first (`atomic_file.py`); here that is one change, under its final name.
Bytes read are counted for the progress bar. `file_system.py` and `overlay.py` perform the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from storage.disk.file_names import CLEAN_SHUTDOWN, TMP_SUFFIX
from storage.disk.file_system import FileSystem


class Change(NamedTuple):
    """One change of a file."""

    action: str
    """`removed`, `cut`, `renamed`, `written` or `created`."""
    file: str
    bytes: int
    """Bytes that were removed, or the bytes that there are now."""
    to: str = ""
    """The name after a rename."""


class RecordedFileSystem:
    """A `storage.disk.file_system.FileSystem` around another one."""

    def __init__(self, inner: FileSystem, on_read: Callable[[int], None]) -> None:
        self._inner = inner
        self._on_read = on_read
        self._changes: list[Change] = []
        self._paths: dict[int, str] = {}
        self.close, self.dup = inner.close, inner.dup
        self.pwritev, self.fdatasync, self.fsync_dir = inner.pwritev, inner.fdatasync, inner.fsync_dir
        self.size, self.room, self.modified_ms = inner.size, inner.room, inner.modified_ms
        self.exists, self.is_directory = inner.exists, inner.is_directory
        self.read_file, self.listdir = inner.read_file, inner.listdir
        self.mkdir, self.lock = inner.mkdir, inner.lock

    def take_changes(self) -> list[Change]:
        """The changes since the last call, in order, without the marker of a clean stop, which is put back."""
        changes, self._changes = self._changes, []
        return [change for change in changes if not change.file.endswith(CLEAN_SHUTDOWN)]

    def entries(self, path: str) -> dict[str, bool]:
        return {name: self.is_directory(f"{path}/{name}") for name in self.listdir(path)}

    def open(self, path: str, *, create: bool = False) -> int:
        fd = self._inner.open(path, create=create)
        self._paths[fd] = path
        if create and not path.endswith(TMP_SUFFIX):
            self._changes.append(Change("created", path, 0))
        return fd

    def pread(self, fd: int, size: int, at: int) -> bytes:
        data = self._inner.pread(fd, size, at)
        self._on_read(len(data))
        return data

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        return self.pread(fd, size, at)

    def drop_cache(self, fd: int, position: int) -> None:
        self._inner.drop_cache(fd, position)

    def truncate(self, fd: int, size: int) -> None:
        path = self._paths[fd]
        gone = self._inner.size(path) - size
        self._inner.truncate(fd, size)
        if gone:
            self._changes.append(Change("cut", path, gone))

    def rename(self, source: str, target: str) -> None:
        self._inner.rename(source, target)
        size = self._inner.size(target)
        if source == target + TMP_SUFFIX:
            self._changes.append(Change("written", target, size))
        else:
            self._changes.append(Change("renamed", source, size, target))

    def unlink(self, path: str) -> None:
        size = self._inner.size(path)
        self._inner.unlink(path)
        self._changes.append(Change("removed", path, size))

    def rmdir(self, path: str) -> None:
        self._inner.rmdir(path)
        self._changes.append(Change("removed", path, 0))

    def __repr__(self) -> str:
        return f"RecordedFileSystem({self._inner!r}, {len(self._changes)} changes)"
