"""The disks of a simulated machine, as one of its processes uses them: every call takes time, and may fail.

The bytes are in a `LosingFileSystem`, which outlives the process and knows what is durable. Here are the faults that
last: a log dir that fails, is full, or is slow. A call waits before it is carried out, so that everything else may come
in between; a process that is killed while it waits has not done it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.types import METADATA_TOPIC
from storage.disk.file_names import LOG_SUFFIX
from storage.disk.file_system import Bytes, DiskRoom
from tests.simulation.cluster.hangs import Hang
from tests.simulation.cluster.scheduler import Process
from tests.support.losing_fs import LosingFileSystem

CALL_SECONDS_MAX = 30e-6
SYNCS = ("fdatasync", "fsync_dir")
STRUCK_SECONDS = 1.0
"""More than enough: a process that is struck ends at this very time."""
SHORT_WRITE = "short write"
"""A call that fails: the disk has room for half of the next write to a log of a partition."""
TAKES_ROOM = ("create", "write", "mkdir")


@dataclass(frozen=True, slots=True)
class Strike:
    """The process ends at the next call of such a name, for a file or directory whose path has `part`."""

    call: str
    part: str
    is_after: bool
    """The call is carried out before that, and its caller does not hear so."""
    end: Callable[[], object]


@dataclass
class DiskFaults:
    """The present faults of one machine's log dirs, by the beginning of their paths."""

    failing: dict[str, int] = field(default_factory=dict)
    """Every call there fails with this errno."""
    full: set[str] = field(default_factory=set)
    slow_seconds: dict[str, float] = field(default_factory=dict)
    """Every call there takes up to so long."""
    hung: dict[str, Hang] = field(default_factory=dict)
    """Calls there do not come back."""
    cold_share: float = 0.0
    """So many of the reads that need not wait find nothing in the page cache."""
    sync_seconds: float = 1.5e-3
    """A sync takes up to so long where the log dir is not slow."""
    fail_next: dict[str, int] = field(default_factory=dict)
    """The next call of this name fails with this errno."""
    strike: Strike | None = None


class ProcessDisk:
    """A `storage.disk.file_system.FileSystem`."""

    def __init__(
        self,
        disk: LosingFileSystem,
        process: Process,
        faults: DiskFaults,
        is_running: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_running`: the process has started its node, and does not stop it."""
        self.disk, self._process, self._faults, self._is_running = disk, process, faults, is_running
        self._draw = process.scheduler.draw
        self._paths: dict[int, str] = {}

    def _meet(self, call: str, path: str) -> None:
        """Passes time before a call, and perhaps raises an error."""
        faults = self._faults
        most = faults.sync_seconds if call in SYNCS else CALL_SECONDS_MAX
        for part, seconds in faults.slow_seconds.items():
            if path.startswith(part):
                most = seconds
        self._process.sleep(self._draw.random() * most)
        for part, hang in tuple(faults.hung.items()):
            if path.startswith(part):
                hang.meet(self._process, call, path, is_running=self._is_running())
        if faults.strike is not None:
            self._be_struck(call, path, is_after=False)
        if faults.fail_next and (code := faults.fail_next.pop(call, None)) is not None:
            raise OSError(code, os.strerror(code), path)
        for part, code in faults.failing.items():
            if path.startswith(part):
                raise OSError(code, os.strerror(code), path)
        if faults.full and call in TAKES_ROOM and any(path.startswith(part) for part in faults.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _be_struck(self, call: str, path: str, *, is_after: bool) -> None:
        """The process ends where it stands, if it is in the wanted place."""
        strike = self._faults.strike
        if strike is not None and (strike.call, strike.is_after) == (call, is_after) and strike.part in path:
            self._faults.strike = None
            strike.end()
            self._process.sleep(STRUCK_SECONDS)

    def _at(self, call: str, path: str, work: Callable[..., Any], *arguments: Any) -> Any:
        self._meet(call, path)
        done = work(*arguments)
        if self._faults.strike is not None:
            self._be_struck(call, path, is_after=True)
        return done

    def _of(self, call: str, fd: int, work: Callable[..., Any], *arguments: Any) -> Any:
        self._meet(call, self._paths[fd])
        done = work(fd, *arguments)
        if self._faults.strike is not None:
            self._be_struck(call, self._paths[fd], is_after=True)
        return done

    def _held(self, fd: int, path: str) -> int:
        self._paths[fd] = path
        return fd

    def open(self, path: str, *, create: bool = False) -> int:
        call = "create" if create else "open"
        self._meet(call, path)
        fd = self._held(self.disk.open(path, create=create), path)
        self._be_struck(call, path, is_after=True)
        return fd

    def close(self, fd: int) -> None:
        self.disk.close(fd)
        self._paths.pop(fd, None)

    def dup(self, fd: int) -> int:
        path = self._paths[fd]
        return self._held(self._of("dup", fd, self.disk.dup), path)

    def pread(self, fd: int, size: int, at: int) -> bytes:
        found: bytes = self._of("pread", fd, self.disk.pread, size, at)
        return found

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        """Never waits; a file of a failing or slow log dir is not in the page cache."""
        path, faults = self._paths[fd], self._faults
        is_held_up = (faults.failing or faults.slow_seconds) and any(
            path.startswith(part) for part in (*faults.failing, *faults.slow_seconds)
        )
        if is_held_up or self._draw.random() < faults.cold_share:
            return None
        return self.disk.pread(fd, size, at)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        path, fail_next = self._paths[fd], self._faults.fail_next
        if SHORT_WRITE in fail_next and path.endswith(LOG_SUFFIX) and METADATA_TOPIC not in path:
            del fail_next[SHORT_WRITE]
            content = b"".join(buffers)
            buffers = (content[: len(content) // 2],)
        taken: int = self._of("write", fd, self.disk.pwritev, buffers, at)
        return taken

    def truncate(self, fd: int, size: int) -> None:
        self._of("truncate", fd, self.disk.truncate, size)

    def fdatasync(self, fd: int) -> None:
        try:
            self._meet("fdatasync", self._paths[fd])
        except OSError:
            self.disk.fail_on["fdatasync"] = errno.EIO  # so that it drops the pages that were dirty
            try:
                self.disk.fdatasync(fd)
            finally:
                del self.disk.fail_on["fdatasync"]
        self.disk.fdatasync(fd)
        self._be_struck("fdatasync", self._paths[fd], is_after=True)

    def drop_cache(self, fd: int, position: int) -> None:
        self._of("drop_cache", fd, self.disk.drop_cache, position)

    def size(self, path: str) -> int:
        found: int = self._at("size", path, self.disk.size, path)
        return found

    def room(self, path: str) -> DiskRoom:
        found: DiskRoom = self._at("room", path, self.disk.room, path)
        full = any(path.startswith(part) for part in self._faults.full)
        return found._replace(free_bytes=0) if full else found

    def modified_ms(self, path: str) -> int:
        found: int = self._at("modified_ms", path, self.disk.modified_ms, path)
        return found

    def exists(self, path: str) -> bool:
        found: bool = self._at("exists", path, self.disk.exists, path)
        return found

    def is_directory(self, path: str) -> bool:
        found: bool = self._at("is_directory", path, self.disk.is_directory, path)
        return found

    def read_file(self, path: str) -> bytes:
        found: bytes = self._at("read_file", path, self.disk.read_file, path)
        return found

    def listdir(self, path: str) -> list[str]:
        found: list[str] = self._at("listdir", path, self.disk.listdir, path)
        return found

    def entries(self, path: str) -> dict[str, bool]:
        found: dict[str, bool] = self._at("entries", path, self.disk.entries, path)
        return found

    def mkdir(self, path: str) -> None:
        self._at("mkdir", path, self.disk.mkdir, path)

    def rmdir(self, path: str) -> None:
        self._at("rmdir", path, self.disk.rmdir, path)

    def rename(self, source: str, target: str) -> None:
        self._at("rename", target, self.disk.rename, source, target)

    def unlink(self, path: str) -> None:
        self._at("unlink", path, self.disk.unlink, path)

    def fsync_dir(self, path: str) -> None:
        self._at("fsync_dir", path, self.disk.fsync_dir, path)

    def lock(self, path: str) -> int:
        return self._held(self._at("lock", path, self.disk.lock, path), path)

    def __repr__(self) -> str:
        return f"ProcessDisk({self._process.name})"
