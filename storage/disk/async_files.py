"""The event loop's access to small files that nobody has read lately, like the configuration of a running node.

The loop does not wait for the disk: `AioFiles` reads in a thread of its executor (aiofiles). Not for logs: storage has
threads of its own for each log dir, and reads a partition's files through `FileSystem`.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Protocol

import aiofiles


class AsyncFiles(Protocol):
    """Files, for a coroutine. Errors are the machine's OSError."""

    async def read_start(self, path: str, bytes_max: int) -> bytes:
        """The first bytes of a file, at most `bytes_max`."""
        ...


class AioFiles:
    """The machine's files. A read that was cancelled keeps its thread until the disk answers."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def read_start(self, path: str, bytes_max: int) -> bytes:
        async with aiofiles.open(path, "rb", executor=self._executor) as file:
            return await file.read(bytes_max)

    def __repr__(self) -> str:
        return "AioFiles()"
