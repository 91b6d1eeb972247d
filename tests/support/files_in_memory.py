"""Small files for the event loop, on a file system in memory; a read may be held back, as by a disk that hangs."""

from __future__ import annotations

import asyncio

from storage.disk.file_system import FileSystem


class FilesInMemory:
    """As `storage.disk.async_files.AsyncFiles`."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.answers = asyncio.Event()
        """A read waits for it. Set at first."""
        self.answers.set()
        self.reads = 0

    async def read_start(self, path: str, bytes_max: int) -> bytes:
        self.reads += 1
        await self.answers.wait()
        return self._fs.read_file(path)[:bytes_max]
