"""The only way from storage to the disk: a small protocol of file operations, and the one that uses the machine's.

Every byte that storage reads or writes goes through a `FileSystem`, so that a test can lose unsynced bytes, tear a
write, drop a directory entry or fail the n-th call (`tests/support/losing_fs.py`). Operations raise `OSError` as the
machine does; `storage.disk.disk_errors` turns it into a typed error once, in the class that knows which log is
affected.

Durability rules that every caller relies on: `fdatasync` makes the bytes and the size of one file durable, not its
name; `fsync_dir` makes creations, renames and removals in one directory durable. There is no format, no cache and no
retry here: a failed fsync is never retried, because the kernel may have dropped the dirty pages (Rebello et al., "Can
Applications Recover from fsync Failures?", ATC'20).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.durable import sync_all, sync_data
from storage.disk.spare_descriptors import SPARE

Bytes = bytes | bytearray | memoryview
"""The types that a write accepts; never copied on the way to the kernel."""


READ_BYTES = 64 * 1024
"""A file that is read whole is nearly always smaller: one read, without asking for its size first."""


VIEW_BYTES_MIN = 16 * 1024
"""A read into a buffer is handed out as a view of it from this size on: a copy took a third of a fetch's time."""
Found = bytes | memoryview
"""Bytes that were read; nobody can change them."""
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
"""The flag of a read that does not wait; only Linux has it."""
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""The errors of a file system or an old kernel that does not know RWF_NOWAIT."""


class DiskRoom(NamedTuple):
    """Bytes of a file system in all, and those that this process may still take."""

    size_bytes: int
    free_bytes: int

    @property
    def is_short(self) -> bool:
        """True if less than a hundredth is free: deleted files then go at once, without a delay."""
        return self.free_bytes * 100 < self.size_bytes


class FileSystem(Protocol):
    """File operations; descriptors are ints as in POSIX. Safe to call from several threads."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading and writing; with `create` the file must not exist yet."""
        ...

    def close(self, fd: int) -> None: ...

    def dup(self, fd: int) -> int:
        """A second descriptor of the same file, so that a flush can go on when the first is closed."""
        ...

    def pread(self, fd: int, size: int, at: int) -> bytes: ...

    def pread_nowait(self, fd: int, size: int, at: int) -> Found | None:
        """The bytes from `at` on that the page cache holds; None when it does not hold the first byte.

        Fewer bytes than asked for: the rest is behind the end of the file, or would have to be read from the disk. A
        file system that cannot tell (tmpfs, which has no disk; some that reach over a network) reads as `pread` does.
        """
        ...

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        """Write the buffers one after another from `at`; returns how many bytes were taken (may be short)."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...

    def fdatasync(self, fd: int) -> None:
        """A failure is never reported as ENOSPC: it is no shortage that may pass (`disk_errors.py`)."""
        ...

    def drop_cache(self, fd: int, position: int) -> None:
        """Later reads from `position` on come from the disk: after a failed fsync the page cache may differ from it."""
        ...

    def size(self, path: str) -> int: ...

    def room(self, path: str) -> DiskRoom:
        """The room on the file system that has the directory."""
        ...

    def modified_ms(self, path: str) -> int:
        """Wall time of the last write to the file."""
        ...

    def exists(self, path: str) -> bool:
        """False only when there is no such name; raises when the disk does not answer."""
        ...

    def is_directory(self, path: str) -> bool:
        """True if the path is a directory. Like `exists` it raises when the disk does not answer."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def listdir(self, path: str) -> list[str]: ...

    def entries(self, path: str) -> dict[str, bool]:
        """The names in a directory, sorted, and whether each is a directory; one scan."""
        ...

    def mkdir(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file that has the target's name."""
        ...

    def unlink(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        """Create the file if need be and take an exclusive lock on it; BlockingIOError when another holds it."""
        ...


OWNER_ALONE: Final = 0o600
"""The mode of new files: they hold clients' records and, in the metadata log, its snapshots and bootstrap-users, the
keys of users. ACLs would keep nobody out who may read them."""


class OsFileSystem:
    """The machine's file system."""

    def open(self, path: str, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        flags = flags | os.O_CREAT | os.O_EXCL if create else flags
        return SPARE.opened(lambda: os.open(path, flags, OWNER_ALONE))

    def close(self, fd: int) -> None:
        os.close(fd)

    def dup(self, fd: int) -> int:
        return SPARE.opened(lambda: os.dup(fd))

    def pread(self, fd: int, size: int, at: int) -> bytes:
        return os.pread(fd, size, at)

    def pread_nowait(self, fd: int, size: int, at: int) -> Found | None:
        if _NOWAIT is None:
            return os.pread(fd, size, at)
        buffer = bytearray(size)
        try:
            found = os.preadv(fd, [buffer], at, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
            return os.pread(fd, size, at)
        view = memoryview(buffer)[:found]
        return view.toreadonly() if found >= VIEW_BYTES_MIN else bytes(view)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        return os.pwritev(fd, buffers, at)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        _final("fdatasync", sync_data, fd)

    def drop_cache(self, fd: int, position: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, 0, os.POSIX_FADV_DONTNEED)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def room(self, path: str) -> DiskRoom:
        found = os.statvfs(path)
        return DiskRoom(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def exists(self, path: str) -> bool:
        return _mode(path) is not None

    def is_directory(self, path: str) -> bool:
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def read_file(self, path: str) -> bytes:
        fd = SPARE.opened(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            chunks = [os.read(fd, READ_BYTES)]
            while len(chunks[-1]) == READ_BYTES:
                chunks.append(os.read(fd, READ_BYTES))
        finally:
            os.close(fd)
        return b"".join(chunks) if len(chunks) > 1 else chunks[0]

    def listdir(self, path: str) -> list[str]:
        return sorted(SPARE.opened(lambda: os.listdir(path)))

    def entries(self, path: str) -> dict[str, bool]:
        with SPARE.opened(lambda: os.scandir(path)) as found:
            return dict(sorted((entry.name, entry.is_dir()) for entry in found))

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def fsync_dir(self, path: str) -> None:
        fd = SPARE.opened(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            _final("fsync", sync_all, fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def __repr__(self) -> str:
        return "OsFileSystem()"


def _final(name: str, sync: Callable[[int], None], fd: int) -> None:
    try:
        sync(fd)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(errno.EIO, f"{name}: {error.strerror}") from error
        raise


def _mode(path: str) -> int | None:
    """The mode of a path; None if the name does not exist. (os.path.exists reports a disk error in the same way.)"""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def remove_tree(fs: FileSystem, path: str) -> None:
    """Remove a directory and everything below it."""
    for name in fs.listdir(path):
        child = f"{path}/{name}"
        if fs.is_directory(child):
            remove_tree(fs, child)
        else:
            fs.unlink(child)
    fs.rmdir(path)
