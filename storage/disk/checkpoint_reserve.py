"""Room that is kept back for the checkpoints of one log dir: a full disk does not stop them.

    checkpoint-reserve     a file of RESERVE_BYTES or more, in the log dir; its content means nothing

A checkpoint that finds no room is written over the reserve's bytes, in blocks that the file has already, and the file
takes the checkpoint's name. So no other writer can take the room in between. Where a file system never writes in place
(btrfs, ZFS), the reserve is given back, and the checkpoint is tried once more. The blocks of the checkpoint that was
replaced are free afterwards, and the next `refill` takes them, or as much as there is.

The reserve is no promise: an error while it is refilled is logged, and nothing else. Not here: when a checkpoint is
written (`log_directory.py`), how records make room (`broker/jobs/log_upkeep.py`).
"""

from __future__ import annotations

import contextlib
import logging
from hashlib import shake_256

from penstock.threads import Threads
from storage.disk.atomic_file import NamingStep, always, write_and_close, write_atomically
from storage.disk.disk_errors import is_disk_full, is_shortage
from storage.disk.file_names import CHECKPOINT_RESERVE
from storage.disk.file_system import FileSystem

_log = logging.getLogger(__name__)

RESERVE_BYTES = 64 * 1024
"""The lines of about a thousand partitions. Where a checkpoint is larger, the reserve grows to twice its size."""
_CHUNK_BYTES = 64 * 1024
_NOT_OURS = FileNotFoundError, PermissionError, IsADirectoryError
"""The reserve is gone, or somebody else has put something in its place: the disk is full, and not broken."""


class CheckpointReserve:
    """The reserve of one log dir. May be used from any thread."""

    def __init__(self, fs: FileSystem, log_dir: str, threads: Threads, step: NamingStep = always) -> None:
        """`step` raises OSError once nothing may be written in the log dir."""
        self._fs, self._step = fs, step
        self.path = f"{log_dir}/{CHECKPOINT_RESERVE}"
        self._mutex = threads.lock()
        self._wanted_bytes = RESERVE_BYTES
        self._is_logged = False
        self.size_bytes = 0
        """The room that is kept back now."""
        with contextlib.suppress(OSError):
            self.size_bytes = fs.size(self.path)

    def write(self, path: str, content: bytes) -> None:
        """Replace the file's content as `write_atomically` does without a sync of the directory; from the reserve, if
        the disk has no other room."""
        self._wanted_bytes = max(self._wanted_bytes, 2 * len(content))
        try:
            write_atomically(self._fs, path, content, sync_directory=False, step=self._step)
        except OSError as error:
            if not is_disk_full(error):
                raise
            with self._mutex:
                if not self.size_bytes:
                    raise
                self._write_from_reserve(path, content)

    def _write_from_reserve(self, path: str, content: bytes) -> None:
        fits, self.size_bytes = self.size_bytes >= len(content), 0  # whatever happens now: refill looks again
        if fits:
            try:
                self._write_over(content)
            except OSError as error:
                if not is_disk_full(error) and not isinstance(error, _NOT_OURS):
                    raise
            else:
                with self._step() as may_be_named:
                    if may_be_named:
                        self._fs.rename(self.path, path)
                return
        with self._step() as may_be_named, contextlib.suppress(*_NOT_OURS):
            if may_be_named:
                self._fs.unlink(self.path)
        write_atomically(self._fs, path, content, sync_directory=False, step=self._step)

    def _write_over(self, content: bytes) -> None:
        """The file has this content, durably; a crash before leaves some of it, and the reserve means nothing."""
        fd = self._fs.open(self.path)
        try:
            self._fs.truncate(fd, len(content))
        except OSError:
            self._fs.close(fd)
            raise
        write_and_close(self._fs, fd, content, sync_content=True)

    def refill(self) -> None:
        """Take the room that the reserve lacks, or as much of it as there is. Blocks, where it lacks any."""
        if self.size_bytes >= self._wanted_bytes:
            return
        with self._mutex:
            try:
                self._extend()
            except OSError as error:
                if not is_shortage(error) and not self._is_logged:
                    self._is_logged = True
                    _log.warning("%s: no room is kept back: %s", self.path, error)

    def _extend(self) -> None:
        try:
            fd = self._fs.open(self.path)
            self.size_bytes = self._fs.size(self.path)
        except FileNotFoundError:
            with self._step() as may_be_named:
                if not may_be_named:
                    return
                fd = self._fs.open(self.path, create=True)
            self.size_bytes = 0
        filler = shake_256(b"room").digest(_CHUNK_BYTES)  # zeros take no room where the file system compresses
        try:
            while (lacks := self._wanted_bytes - self.size_bytes) > 0:
                self.size_bytes += self._fs.pwritev(fd, [memoryview(filler)[:lacks]], self.size_bytes)
        finally:
            try:
                self._fs.fdatasync(fd)
            finally:
                self._fs.close(fd)

    def __repr__(self) -> str:
        return f"CheckpointReserve({self.path}, {self.size_bytes} of {self._wanted_bytes} bytes)"
