"""A file system in memory that loses writes that were not synced, as a disk may at a power cut.

Every file keeps its durable bytes and the writes since; every directory keeps its durable entries and the changes
since. `fdatasync` makes a file durable, `fsync_dir` a directory. `after_crash` gives the file system that a machine
finds when the power comes back. Without a random source, everything that was not synced is gone. With one, any subset
of it survives: each write whole, torn, or not at all; each creation, rename and removal, or not.

Operations that change something are numbered. `crash_at = n` stops the machine at operation n (a write may have taken
half of its bytes); `fail_at[n] = errno` makes it fail; `short_at` holds writes that take half; `watch` is called before
each with the file system, of which it may take a `snapshot`. Every call that can fail, reads and opens too, has a
number of its own, for `fail_call` and `short_call`. After a failed fdatasync the dirty pages count as clean, as in
kernels (ATC'20): they can still be read, and no later fdatasync makes them durable. `lazy_fdatasync` and
`lazy_fsync_dir` are mutants: they return without a sync, like an engine that forgets to call them.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from storage.disk.file_system import Bytes, DiskRoom

ROOM_BYTES = 1 << 40
"""The disk is never full by its size; faults make it so."""


class Crashed(Exception):
    """The machine has stopped; nothing after this reaches the disk."""


@dataclass
class File:
    """Bytes, what of them is durable, and the writes between the two: (position, bytes), or (size, None) for a cut."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0
    """By the file system's `wall_ms`: nothing here depends on the real time."""
    pages_dropped: bool = False
    """A sync has failed: `data` holds what will never be durable."""
    flips: dict[int, int] = field(default_factory=dict)
    """Position -> bits that are read wrong, for as long as nothing else is written there."""

    def read(self, at: int, size: int) -> bytes:
        found = self.data[at : at + size]
        for position, mask in self.flips.items():
            if at <= position < at + len(found):
                found[position - at] ^= mask
        return bytes(found)

    def change(self, at: int, content: bytes | None) -> None:
        _apply(self.data, at, content)
        if self.flips:
            end = at + len(content) if content is not None else max(self.flips) + 1
            self.flips = {position: mask for position, mask in self.flips.items() if not at <= position < end}
        self.pending.append((at, content))

    def sync(self) -> None:
        self.durable = self.after_sync()
        self.pending.clear()

    def after_sync(self) -> bytes:
        """The bytes on the disk once everything that is dirty was written."""
        if not self.pages_dropped:
            return bytes(self.data)
        durable = bytearray(self.durable)
        for at, content in self.pending:
            _apply(durable, at, content)
        return bytes(durable)

    def drop_pages(self) -> None:
        """The sync failed: what was dirty counts as clean from now on, and is not on the disk. A cut is no page."""
        cuts = [change for change in self.pending if change[1] is None]
        self.pages_dropped = self.pages_dropped or len(cuts) < len(self.pending)
        self.pending[:] = cuts


@dataclass
class Directory:
    """Entries, what of them is durable, and the changes between the two: each several names at once, atomically."""

    entries: dict[str, File | Directory] = field(default_factory=dict)
    durable: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[dict[str, File | Directory | None]] = field(default_factory=list)

    def change(self, changes: dict[str, File | Directory | None]) -> None:
        _link(self.entries, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()


class LosingFileSystem:
    """A `storage.disk.file_system.FileSystem` for tests."""

    def __init__(self, root: Directory | None = None, wall_ms: Callable[[], int] | None = None) -> None:
        """`wall_ms`: the clock by which files are modified; without one, all are of 1970."""
        self.root = root or Directory()
        self.wall_ms = wall_ms or (lambda: 0)
        self.operations = 0
        self.trace: list[str] = []
        self.crash_at: int | None = None
        self.fail_at: dict[int, int] = {}
        self.short_at: set[int] = set()
        self.fail_on: dict[str, int] = {}
        """Operation name -> errno, for every call of it."""
        self.calls: list[str] = []
        """Every call that can fail, by name; the first has number 1."""
        self.fail_call: dict[int, int] = {}
        self.short_call: set[int] = set()
        self.watch: Callable[[LosingFileSystem], None] | None = None
        self.lazy_fdatasync = self.lazy_fsync_dir = False
        self._crashed = False
        self.descriptors: dict[int, File] = {}
        self._locks: dict[str, int] = {}
        self._next_fd = 3
        self._mutex = threading.RLock()

    # -- the protocol --------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        with self._mutex:
            if create:
                self._step("create", path)
                parent, name = self.parent_of(path)
                if name in parent.entries:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                parent.change({name: File()})
            else:
                self._must_run("open")
            return self._descriptor(self.file_at(path))

    def _descriptor(self, file: File) -> int:
        self._next_fd += 1
        self.descriptors[self._next_fd] = file
        return self._next_fd

    def close(self, fd: int) -> None:
        with self._mutex:
            self._held(fd)
            del self.descriptors[fd]
            self._locks = {path: holder for path, holder in self._locks.items() if holder != fd}

    def dup(self, fd: int) -> int:
        with self._mutex:
            self._must_run("dup")
            return self._descriptor(self._held(fd))

    def pread(self, fd: int, size: int, at: int) -> bytes:
        with self._mutex:
            self._must_run("pread")
            return self._held(fd).read(at, size)

    def pread_nowait(self, fd: int, size: int, at: int) -> bytes | None:
        """Reads at once: everything is in memory."""
        return self.pread(fd, size, at)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        with self._mutex:
            content = b"".join(buffers)
            file = self._held(fd)
            try:
                self._step("write", f"{len(content)}@{at}")
            except Crashed:
                self._change(file, at, content[: len(content) // 2])
                raise
            if self.operations in self.short_at or len(self.calls) in self.short_call:
                content = content[: len(content) // 2]
            self._change(file, at, content)
            return len(content)

    def _change(self, file: File, at: int, content: bytes | None) -> None:
        file.change(at, content)
        file.modified_ms = self.wall_ms()

    def truncate(self, fd: int, size: int) -> None:
        with self._mutex:
            self._step("truncate", str(size))
            self._change(self._held(fd), size, None)

    def fdatasync(self, fd: int) -> None:
        with self._mutex:
            file = self._held(fd)
            try:
                self._step("fdatasync", str(fd))
            except OSError as error:
                file.drop_pages()
                raise _of_sync(error) from None
            if not self.lazy_fdatasync:
                file.sync()

    def drop_cache(self, fd: int, position: int) -> None:
        with self._mutex:
            self._must_run("drop_cache")
            file = self._held(fd)
            if file.pages_dropped:
                file.data[position:] = file.after_sync()[position:]

    def size(self, path: str) -> int:
        with self._mutex:
            self._must_run("size")
            node = self._node(path)
            return len(node.data) if isinstance(node, File) else 0

    def room(self, path: str) -> DiskRoom:
        with self._mutex:
            self._must_run("room")
            return DiskRoom(ROOM_BYTES, ROOM_BYTES)

    def modified_ms(self, path: str) -> int:
        with self._mutex:
            self._must_run("modified_ms")
            return self.file_at(path).modified_ms

    def exists(self, path: str) -> bool:
        with self._mutex:
            self._must_run("exists")
            return self.is_there(path)

    def is_directory(self, path: str) -> bool:
        with self._mutex:
            self._must_run("is_directory")
            return self.is_there(path) and isinstance(self._node(path), Directory)

    def is_there(self, path: str) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def read_file(self, path: str) -> bytes:
        with self._mutex:
            self._must_run("read_file")
            file = self.file_at(path)
            return file.read(0, len(file.data))

    def listdir(self, path: str) -> list[str]:
        with self._mutex:
            self._must_run("listdir")
            return sorted(self.directory_at(path).entries)

    def entries(self, path: str) -> dict[str, bool]:
        with self._mutex:
            return {name: isinstance(self._node(f"{path}/{name}"), Directory) for name in self.listdir(path)}

    def mkdir(self, path: str) -> None:
        with self._mutex:
            self._step("mkdir", path)
            parent, name = self.parent_of(path)
            if name in parent.entries:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            parent.change({name: Directory()})

    def rmdir(self, path: str) -> None:
        with self._mutex:
            self._step("rmdir", path)
            if self.directory_at(path).entries:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            parent, name = self.parent_of(path)
            parent.change({name: None})

    def rename(self, source: str, target: str) -> None:
        with self._mutex:
            self._step("rename", f"{source} -> {target}")
            parent, name = self.parent_of(source)
            same, new_name = self.parent_of(target)
            if parent is not same:
                raise OSError(errno.EXDEV, "only within a directory", target)
            moved, there = self._node(source), parent.entries.get(new_name)
            if isinstance(there, Directory) and not isinstance(moved, Directory):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            parent.change({name: None, new_name: moved})

    def unlink(self, path: str) -> None:
        with self._mutex:
            self.file_at(path)
            self._step("unlink", path)
            parent, name = self.parent_of(path)
            parent.change({name: None})

    def fsync_dir(self, path: str) -> None:
        with self._mutex:
            try:
                self._step("fsync_dir", path)
            except OSError as error:
                raise _of_sync(error) from None
            directory = self.directory_at(path)
            if not self.lazy_fsync_dir:
                directory.sync()

    def lock(self, path: str) -> int:
        with self._mutex:
            if path in self._locks:
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
            fd = self.open(path, create=not self.is_there(path))
            self._locks[path] = fd
            return fd

    # -- faults --------------------------------------------------------------------------------------------------------

    def _step(self, name: str, what: str) -> None:
        self._must_run(name)
        if self.watch is not None:
            self.watch(self)
        self.operations += 1
        self.trace.append(f"{self.operations} {name} {what}")
        if self.crash_at is not None and self.operations >= self.crash_at:
            self._crashed = True
            raise Crashed(f"at {self.trace[-1]}")
        code = self.fail_at.get(self.operations)
        if code is not None:
            raise OSError(code, os.strerror(code), what)

    def _must_run(self, name: str) -> None:
        if self._crashed:
            raise Crashed("the machine is down")
        self.calls.append(name)
        code = self.fail_on.get(name) or self.fail_call.get(len(self.calls))
        if code is not None:
            raise OSError(code, os.strerror(code))

    def after_crash(self, random: Random | None = None) -> LosingFileSystem:
        """The disk that the machine finds when it starts again."""
        with self._mutex:
            return LosingFileSystem(_survivor(self.root, random), self.wall_ms)

    def after_lucky_crash(self) -> LosingFileSystem:
        """Everything survived a power cut but for half of the last write to each file, where that was not synced."""
        with self._mutex:
            return LosingFileSystem(_all_but_half_a_write(self.root), self.wall_ms)

    def snapshot(self) -> LosingFileSystem:
        """A copy that knows what is durable and what is not; no file of it is open."""
        with self._mutex:
            return LosingFileSystem(_deep_copy(self.root, {}), self.wall_ms)

    def after_kill(self) -> LosingFileSystem:
        """The disk after the death of the process alone: the page cache survives, and is still not durable."""
        with self._mutex:
            survivor = LosingFileSystem(self.root, self.wall_ms)
            return survivor

    def damage(self, path: str, position: int, mask: int) -> None:
        """Flip bits of one byte, durably."""
        file = self.file_at(path)
        file.data[position] ^= mask
        file.sync()

    def cut(self, path: str, size: int) -> None:
        """Make a file shorter, durably."""
        file = self.file_at(path)
        del file.data[size:]
        file.sync()

    def durable(self, path: str) -> bytes:
        """The bytes of a file that a power cut would leave."""
        return self.file_at(path).durable

    def files(self, path: str = "") -> list[str]:
        """Every file below a path."""
        found: list[str] = []
        for name, node in sorted(self.directory_at(path).entries.items()):
            child = f"{path}/{name}"
            found += [child] if isinstance(node, File) else self.files(child)
        return found

    def clone(self) -> LosingFileSystem:
        """A copy in which everything is durable."""
        return LosingFileSystem(_copy(self.root), self.wall_ms)

    # -- looking up ----------------------------------------------------------------------------------------------------

    def _node(self, path: str) -> File | Directory:
        node: File | Directory = self.root
        for name in path.split("/"):
            if name:
                if not isinstance(node, Directory) or name not in node.entries:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                node = node.entries[name]
        return node

    def file_at(self, path: str) -> File:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def directory_at(self, path: str) -> Directory:
        node = self._node(path)
        if isinstance(node, File):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def parent_of(self, path: str) -> tuple[Directory, str]:
        return self.directory_at(os.path.dirname(path)), os.path.basename(path)

    def _held(self, fd: int) -> File:
        if fd not in self.descriptors:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.descriptors[fd]

    @property
    def open_descriptors(self) -> int:
        return len(self.descriptors)

    def __repr__(self) -> str:
        return f"LosingFileSystem({self.operations} operations)"


def _of_sync(error: OSError) -> OSError:
    """The error as the protocol has it: a sync that failed is no shortage."""
    return OSError(errno.EIO, error.strerror) if error.errno in (errno.ENOSPC, errno.EDQUOT) else error


def _apply(data: bytearray, at: int, content: bytes | None) -> None:
    if content is None:
        del data[at:]
        data.extend(bytes(at - len(data)))
        return
    data.extend(bytes(max(0, at - len(data))))
    data[at : at + len(content)] = content


def _link(entries: dict[str, File | Directory], changes: dict[str, File | Directory | None]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _survivor(node: Directory, random: Random | None) -> Directory:
    entries = dict(node.durable)
    for changes in node.pending if random is not None else ():
        if random is not None and random.random() < 0.5:
            _link(entries, changes)
    survived: dict[str, File | Directory] = {}
    for name, child in sorted(entries.items()):
        survived[name] = _surviving_file(child, random) if isinstance(child, File) else _survivor(child, random)
    return Directory(dict(survived), dict(survived))


def _surviving_file(file: File, random: Random | None) -> File:
    data = bytearray(file.durable)
    for at, content in file.pending if random is not None else ():
        if random is None or random.random() < 0.4:
            continue
        if content is not None and random.random() < 0.3:
            content = content[: random.randrange(len(content) + 1)]
        _apply(data, at, content)
    return File(bytearray(data), bytes(data), modified_ms=file.modified_ms)


def _all_but_half_a_write(node: Directory) -> Directory:
    entries: dict[str, File | Directory] = {}
    for name, child in node.entries.items():
        if isinstance(child, Directory):
            entries[name] = _all_but_half_a_write(child)
            continue
        data = bytearray(child.durable)
        for at, content in child.pending[:-1]:
            _apply(data, at, content)
        for at, content in child.pending[-1:]:
            _apply(data, at, content if content is None else content[: len(content) // 2])
        entries[name] = File(data, bytes(data), modified_ms=child.modified_ms)
    return Directory(entries, dict(entries))


def _deep_copy(node: Directory, copies: dict[int, File | Directory]) -> Directory:
    def copy(child: File | Directory) -> File | Directory:
        if id(child) not in copies:
            if isinstance(child, File):
                pending = list(child.pending)
                copies[id(child)] = File(
                    bytearray(child.data), child.durable, pending, child.modified_ms, child.pages_dropped
                )
            else:
                copies[id(child)] = _deep_copy(child, copies)
        return copies[id(child)]

    return Directory(
        {name: copy(child) for name, child in node.entries.items()},
        {name: copy(child) for name, child in node.durable.items()},
        [{name: None if child is None else copy(child) for name, child in changes.items()} for changes in node.pending],
    )


def _durable_copy(file: File) -> File:
    return File(bytearray(file.data), bytes(file.data), modified_ms=file.modified_ms)


def _copy(node: Directory) -> Directory:
    entries: dict[str, File | Directory] = {}
    for name, child in node.entries.items():
        entries[name] = _durable_copy(child) if isinstance(child, File) else _copy(child)
    return Directory(entries, dict(entries))
