"""Writes one `.log.cleaned` file: pieces of any size in, few large writes out, and everything durable at the end.

A file of that name from an earlier attempt is removed first. `finish` makes the bytes durable; the swap makes the name
durable. `discard` removes the file; if the disk refuses, the next start removes it.

`segment_cleaning.py` decides what is written; the swap is in `file_changes.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from penstock.errors import RecordListTooLargeError
from storage.disk.file_system import Bytes, FileSystem
from storage.log_config import MAX_SEGMENT_BYTES

WRITE_BYTES = 1024 * 1024
MAX_PIECES = 1000
"""The most pieces of one writev, which takes 1,024 (IOV_MAX)."""


class CleanedFile:
    """A file that is written from its beginning to its end. `written` is called with the size of every write."""

    __slots__ = ("_fd", "_fs", "_pending_bytes", "_pieces", "_written", "_written_bytes", "path")

    def __init__(self, fs: FileSystem, path: str, written: Callable[[int], None]) -> None:
        self._fs, self.path, self._written = fs, path, written
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(path)
        self._fd = fs.open(path, create=True)
        self._pieces: list[Bytes] = []
        self._pending_bytes = self._written_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._written_bytes + self._pending_bytes

    def write(self, piece: Bytes) -> None:
        """Goes to the disk with the next large write; the piece must stay as it is until then."""
        if not len(piece):
            return
        self._pieces.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes >= WRITE_BYTES or len(self._pieces) >= MAX_PIECES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the kernel."""
        if self.size_bytes > MAX_SEGMENT_BYTES:
            raise RecordListTooLargeError(
                f"{self.path}: more than {MAX_SEGMENT_BYTES} bytes; an index cannot hold such positions"
            )
        while self._pending_bytes:
            taken = self._fs.pwritev(self._fd, self._pieces, self._written_bytes)
            self._written_bytes += taken
            self._pending_bytes -= taken
            self._written(taken)
            if self._pending_bytes:
                self._pieces = [memoryview(b"".join(self._pieces))[taken:]]
        self._pieces = []

    def finish(self) -> int:
        """Makes all bytes durable; returns the size of the file."""
        self.flush()
        self._fs.fdatasync(self._fd)
        self._close()
        return self._written_bytes

    def discard(self) -> None:
        """Remove the file."""
        self._pieces, self._pending_bytes = [], 0
        with contextlib.suppress(OSError):
            self._close()
            self._fs.unlink(self.path)

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)

    def __repr__(self) -> str:
        return f"CleanedFile({self.path}, {self.size_bytes} bytes)"
