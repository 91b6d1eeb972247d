"""A file system in memory of so many bytes: a write beyond them finds no room, whoever fills it.

Names take no room, and bytes that are written over have theirs already, as on most disks. A power cut leaves a
`LosingFileSystem`. A real disk that is full is small_disk.py's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from storage.disk.file_system import Bytes, DiskRoom
from tests.support.losing_fs import LosingFileSystem


class FillingFileSystem(LosingFileSystem):
    """See the module."""

    size_bytes = 10_000_000

    @property
    def free_bytes(self) -> int:
        return max(0, self.size_bytes - sum(len(self.file_at(path).data) for path in self.files()))

    def fill(self, leave_bytes: int = 0) -> None:
        """Something else on the disk grows."""
        self.size_bytes -= self.free_bytes - leave_bytes

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        content = b"".join(buffers)
        grows = at + len(content) - max(at, len(self._held(fd).data))
        room = self.free_bytes
        if grows > 0 and room < grows:
            content = content[: len(content) - grows + room]
            if not content:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwritev(fd, [content], at)

    def room(self, path: str) -> DiskRoom:
        super().room(path)
        return DiskRoom(10_000_000, self.free_bytes)
