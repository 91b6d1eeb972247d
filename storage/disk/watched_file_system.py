"""A file system that tells `CallWatch` when each call to a log dir begins and ends.

It adds about a microsecond to a call. Reads that never wait are not watched. A descriptor belongs to the log dir of the
path that it was opened by. Paths outside of every log dir are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from storage.disk.call_watch import CallWatch
from storage.disk.file_system import Bytes, DiskRoom, FileSystem

P = ParamSpec("P")
T = TypeVar("T")


class WatchedFileSystem:
    """A `FileSystem` over another one. Safe to call from several threads."""

    def __init__(self, fs: FileSystem, watch: CallWatch) -> None:
        self._fs, self._watch = fs, watch
        self._log_dirs: dict[int, str] = {}
        """The log dir of each open descriptor."""
        self.pread_nowait = fs.pread_nowait
        """Itself, not a method around it: it never waits, and there is one for each partition of a fetch."""

    def _at(self, operation: str, path: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        log_dir = self._watch.log_dir_of(path)
        return work(*args, **kwargs) if log_dir is None else self._in(log_dir, operation, work, *args, **kwargs)

    def _in(self, log_dir: str, operation: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = self._watch.begin(log_dir, operation)
        try:
            return work(*args, **kwargs)
        finally:
            self._watch.end(call)

    def _of(self, operation: str, fd: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        log_dir = self._log_dirs.get(fd)
        return work(*args, **kwargs) if log_dir is None else self._in(log_dir, operation, work, *args, **kwargs)

    def _opened(
        self, operation: str, log_dir: str | None, work: Callable[P, int], *args: P.args, **kwargs: P.kwargs
    ) -> int:
        if log_dir is None:
            return work(*args, **kwargs)
        call = self._watch.begin(log_dir, operation)
        try:
            fd = work(*args, **kwargs)
            self._log_dirs[fd] = log_dir
        finally:
            self._watch.end(call)  # a descriptor that comes too late stays open, as every other one there
        return fd

    def open(self, path: str, *, create: bool = False) -> int:
        operation = "create" if create else "open"
        return self._opened(operation, self._watch.log_dir_of(path), self._fs.open, path, create=create)

    def close(self, fd: int) -> None:
        log_dir = self._log_dirs.pop(fd, None)  # BEFORE: its number may be another file's at once
        if log_dir is None:
            self._fs.close(fd)
        elif log_dir not in self._watch.given_up:
            self._in(log_dir, "close", self._fs.close, fd)

    def dup(self, fd: int) -> int:
        return self._opened("dup", self._log_dirs.get(fd), self._fs.dup, fd)

    def pread(self, fd: int, size: int, at: int) -> bytes:
        return self._of("pread", fd, self._fs.pread, fd, size, at)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        return self._of("write", fd, self._fs.pwritev, fd, buffers, at)

    def truncate(self, fd: int, size: int) -> None:
        self._of("truncate", fd, self._fs.truncate, fd, size)

    def fdatasync(self, fd: int) -> None:
        self._of("fdatasync", fd, self._fs.fdatasync, fd)

    def drop_cache(self, fd: int, position: int) -> None:
        self._of("drop_cache", fd, self._fs.drop_cache, fd, position)

    def size(self, path: str) -> int:
        return self._at("stat", path, self._fs.size, path)

    def room(self, path: str) -> DiskRoom:
        return self._at("statvfs", path, self._fs.room, path)

    def modified_ms(self, path: str) -> int:
        return self._at("stat", path, self._fs.modified_ms, path)

    def exists(self, path: str) -> bool:
        return self._at("stat", path, self._fs.exists, path)

    def is_directory(self, path: str) -> bool:
        return self._at("stat", path, self._fs.is_directory, path)

    def read_file(self, path: str) -> bytes:
        return self._at("read", path, self._fs.read_file, path)

    def listdir(self, path: str) -> list[str]:
        return self._at("listdir", path, self._fs.listdir, path)

    def entries(self, path: str) -> dict[str, bool]:
        return self._at("listdir", path, self._fs.entries, path)

    def mkdir(self, path: str) -> None:
        self._at("mkdir", path, self._fs.mkdir, path)

    def rmdir(self, path: str) -> None:
        self._at("rmdir", path, self._fs.rmdir, path)

    def rename(self, source: str, target: str) -> None:
        self._at("rename", target, self._fs.rename, source, target)

    def unlink(self, path: str) -> None:
        self._at("unlink", path, self._fs.unlink, path)

    def fsync_dir(self, path: str) -> None:
        self._at("fsync_dir", path, self._fs.fsync_dir, path)

    def lock(self, path: str) -> int:
        return self._opened("lock", self._watch.log_dir_of(path), self._fs.lock, path)

    def __repr__(self) -> str:
        return f"WatchedFileSystem({self._fs!r}, {self._watch!r})"
