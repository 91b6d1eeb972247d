"""A file system that changes nothing: it reads the machine's files and keeps every change in memory.

`penstock log verify` and `dump` use it, so that they cannot harm the files, and so does a dry run of `recover`: it runs
the code of a real recovery, and reports the changes afterwards. Files are opened for reading only; a read-only mount or
another user's files will do.

An existing file may be cut, renamed and removed here, but not written to: storage never writes into a file that it has
not created. Directories can be removed, not created. Not thread-safe. `recorded.py` notes the changes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence

from penstock.lazy_dataclass import dataclass
from storage.disk.file_system import Bytes, DiskRoom, OsFileSystem

_FIRST_OWN_FD = 1 << 30
"""Descriptors of files that exist only here; the kernel's are far below."""


@dataclass(slots=True)
class _OnDisk:
    """A file of the machine, perhaps under another name, perhaps cut."""

    path: str
    size: int


@dataclass(slots=True)
class _InMemory:
    """A file that was made here."""

    data: bytearray


_File = _OnDisk | _InMemory


class OverlayFileSystem:
    """A `storage.disk.file_system.FileSystem` that writes nothing."""

    def __init__(self) -> None:
        self._changed: dict[str, _File | None] = {}
        """The files that stand in place of the machine's, by path; None: no file."""
        self._open: dict[int, _File] = {}
        self._next_fd = _FIRST_OWN_FD
        self._disk = OsFileSystem()

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self._changed[path] = _InMemory(bytearray())
        return self._open_file(self._file(path))

    def _open_file(self, file: _File) -> int:
        if isinstance(file, _OnDisk):
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        else:
            fd = self._next_fd = self._next_fd + 1
        self._open[fd] = file
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)  # a lock is not among them
        if fd < _FIRST_OWN_FD:
            os.close(fd)

    def dup(self, fd: int) -> int:
        return self._open_file(self._open[fd])

    def pread(self, fd: int, size: int, at: int) -> bytes:
        file = self._open[fd]
        if isinstance(file, _InMemory):
            return bytes(file.data[at : at + size])
        return os.pread(fd, max(min(size, file.size - at), 0), at)

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        return self.pread(fd, size, at)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        file = self._open[fd]
        if isinstance(file, _OnDisk):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), file.path)
        content = b"".join(buffers)
        file.data[at : at + len(content)] = content
        return len(content)

    def truncate(self, fd: int, size: int) -> None:
        file = self._open[fd]
        if isinstance(file, _InMemory):
            del file.data[size:]
        else:
            file.size = min(file.size, size)

    def fdatasync(self, fd: int) -> None:
        """Does nothing: there is nothing to sync."""

    def drop_cache(self, fd: int, position: int) -> None:
        """Does nothing: nothing was written."""

    def size(self, path: str) -> int:
        file = self._file(path)
        return len(file.data) if isinstance(file, _InMemory) else file.size

    def room(self, path: str) -> DiskRoom:
        return self._disk.room(path)

    def modified_ms(self, path: str) -> int:
        file = self._file(path)
        return self._disk.modified_ms(file.path) if isinstance(file, _OnDisk) else 0

    def exists(self, path: str) -> bool:
        return self._changed[path] is not None if path in self._changed else self._disk.exists(path)

    def is_directory(self, path: str) -> bool:
        return path not in self._changed and self._disk.is_directory(path)

    def read_file(self, path: str) -> bytes:
        fd = self.open(path)
        try:
            return self.pread(fd, self.size(path), 0)
        finally:
            self.close(fd)

    def listdir(self, path: str) -> list[str]:
        names = set(self._disk.listdir(path))
        for changed, file in self._changed.items():
            if os.path.dirname(changed) == path:
                (names.discard if file is None else names.add)(os.path.basename(changed))
        return sorted(names)

    def entries(self, path: str) -> dict[str, bool]:
        return {name: self.is_directory(f"{path}/{name}") for name in self.listdir(path)}

    def mkdir(self, path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def rmdir(self, path: str) -> None:
        self._changed[path] = None

    def rename(self, source: str, target: str) -> None:
        self._changed[target] = self._file(source)
        self._changed[source] = None

    def unlink(self, path: str) -> None:
        self._file(path)
        self._changed[path] = None

    def fsync_dir(self, path: str) -> None:
        """Does nothing: there is nothing to sync."""

    def lock(self, path: str) -> int:
        """The lock itself is real, so that no other process changes the files; without the file none can hold it."""
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                raise
            return fd
        return self._open_file(_InMemory(bytearray()))

    def _file(self, path: str) -> _File:
        """The file of that name; a file of the machine is remembered, because it may be cut."""
        if path not in self._changed:
            self._changed[path] = _OnDisk(path, self._disk.size(path))
        file = self._changed[path]
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return file

    def __repr__(self) -> str:
        return f"OverlayFileSystem({len(self._changed)} files looked at or changed)"
