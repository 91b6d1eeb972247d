"""The machine's file system with faults in it: a call on certain files fails, or stands still until it is let go.

A real node runs on it inside the test's process (nodes_here.py). So faults that the kernel cannot make on demand (EIO
from a disk, an fsync of ten seconds) reach everything above storage. Faults are set while the node runs, and removed
again. losing_fs.py has power cuts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from storage.disk.file_system import Bytes, OsFileSystem


@dataclass(eq=False, slots=True)
class Fault:
    """Calls named `operation` on paths that contain `part` fail with `code`, or wait for `gate`. `met` counts them."""

    operation: str
    part: str
    code: int = 0
    access: threading.Event | None = None
    met: int = 0
    was_met: threading.Event = field(default_factory=threading.Event)


class FaultyFileSystem(OsFileSystem):
    """Safe to call from several threads, as every file system is."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._paths: dict[int, str] = {}
        self._mutex = threading.Lock()
        self._locks: set[int] = set()
        self.calls: list[tuple[str, str]] = []
        """(operation, path) of everything that writes."""

    @contextmanager
    def failing(self, operation: str, part: str, code: int) -> Iterator[Fault]:
        """Lets calls named `operation` on paths that contain `part` raise an OSError while the block lasts."""
        with self._fault(Fault(operation, part, code)) as fault:
            yield fault

    @contextmanager
    def standing_still(self, operation: str, part: str) -> Iterator[Fault]:
        """Lets such calls wait for the end of the block, and go on then."""
        access = threading.Event()
        try:
            with self._fault(Fault(operation, part, access=access)) as fault:
                yield fault
        finally:
            access.set()

    @contextmanager
    def _fault(self, fault: Fault) -> Iterator[Fault]:
        with self._mutex:
            self._faults.append(fault)
        try:
            yield fault
        finally:
            with self._mutex:
                self._faults.remove(fault)

    def calls_of(self, operation: str, part: str) -> int:
        """The number of such calls so far."""
        with self._mutex:
            return sum(name == operation and part in path for name, path in self.calls)

    def _meet(self, operation: str, path: str) -> None:
        with self._mutex:
            if operation not in ("open", "pread"):
                self.calls.append((operation, path))
            faults = [fault for fault in self._faults if fault.operation == operation and fault.part in path]
            for fault in faults:
                fault.met += 1
                fault.was_met.set()
        for fault in faults:
            if fault.access is not None:
                fault.access.wait()
            else:
                raise OSError(fault.code, os.strerror(fault.code), path)

    # -- the calls -----------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        self._meet("create" if create else "open", path)
        return self._held(super().open(path, create=create), path)

    def dup(self, fd: int) -> int:
        self._meet("dup", self._paths[fd])
        return self._held(super().dup(fd), self._paths[fd])

    def _held(self, fd: int, path: str) -> int:
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, size: int, at: int) -> bytes:
        self._meet("pread", self._paths[fd])
        return super().pread(fd, size, at)

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        """None while reads of the file fail or stand still: its bytes are not in the page cache either."""
        with self._mutex:
            is_held_up = any(fault.operation == "pread" and fault.part in self._paths[fd] for fault in self._faults)
        return None if is_held_up else super().pread_nowait(fd, size, at)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        self._meet("write", self._paths[fd])
        return super().pwritev(fd, buffers, at)

    def truncate(self, fd: int, size: int) -> None:
        self._meet("truncate", self._paths[fd])
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._meet("fdatasync", self._paths[fd])
        super().fdatasync(fd)

    def mkdir(self, path: str) -> None:
        self._meet("mkdir", path)
        super().mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self._meet("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._meet("unlink", path)
        super().unlink(path)

    def fsync_dir(self, path: str) -> None:
        self._meet("fsync_dir", path)
        super().fsync_dir(path)

    def lock(self, path: str) -> int:
        fd = super().lock(path)
        self._locks.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._locks.discard(fd)
        super().close(fd)

    def let_locks_go(self) -> None:
        """As the end of the process does: a log dir that was given up keeps its lock until then."""
        for fd in tuple(self._locks):
            self.close(fd)

    def __repr__(self) -> str:
        return f"FaultyFileSystem({len(self._faults)} faults)"
