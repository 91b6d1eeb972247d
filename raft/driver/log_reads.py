"""Reads the quorum's log without a stop of the event loop: what the page cache has at once, anything else in a thread.

A read that asks a disk which hangs would stop the whole node: its heartbeats, its other log dirs, and the watch that
gives up such a disk. While a thread reads, the driver makes no other call of the log, as during a flush; the quorum
goes on without this node then, and elects another leader. Not here: what is read, and for whom.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from raft.driver.protocols import RaftLog


class LogReads:
    """The reads of one node's driver, one at a time."""

    def __init__(self, log: RaftLog, executor: Executor | None) -> None:
        self._log, self._executor = log, executor
        self.waited = 0
        """Reads that the page cache did not have."""

    async def read(self, start_offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches from the one that holds `start_offset`, all below `end_offset`; one at least."""
        cached = self._log.read_nowait(start_offset, max_bytes, end_offset)
        if cached is not None:
            return cached
        self.waited += 1
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._log.read, start_offset, max_bytes, end_offset)

    def __repr__(self) -> str:
        return f"LogReads({self._log!r}, {self.waited} waited)"
