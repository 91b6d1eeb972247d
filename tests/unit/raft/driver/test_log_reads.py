"""A read of the quorum's log stops no event loop, even on a disk that hangs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from raft.driver.log_reads import LogReads
from tests.support.raft_fakes import MemoryLog


class HungLog(MemoryLog):
    """A log whose disk answers once it is let go; the page cache has what is below `cached_to`."""

    def __init__(self) -> None:
        super().__init__()
        self.cached_to = 0
        self.answers = threading.Event()

    def read(self, start_offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        assert self.answers.wait(60)
        return b"of the disk"

    def read_nowait(self, start_offset: int, max_bytes: int, max_offset: int) -> bytes | None:
        return b"of the cache" if max_offset <= self.cached_to else None


def test_what_the_page_cache_has_is_read_at_once_and_the_loop_goes_on_while_a_disk_hangs() -> None:
    async def story() -> None:
        log = HungLog()
        log.cached_to = 5
        with ThreadPoolExecutor(1) as executor:
            reads = LogReads(log, executor)
            assert await reads.read(0, 100, 5) == b"of the cache" and reads.waited == 0
            hung = asyncio.create_task(reads.read(0, 100, 6))
            await asyncio.sleep(0)
            assert not hung.done() and reads.waited == 1
            log.answers.set()  # by the loop, which does not wait
            assert await hung == b"of the disk"
            assert "1 waited" in repr(reads)

    asyncio.run(story())
