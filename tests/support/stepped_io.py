"""I/O threads whose work is done when the test says so, on the test's own thread or on one that it may hold up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from broker.network.io_threads import IoWork


class SteppedIo:
    """A `broker.network.io_threads.IoPort`."""

    def __init__(self, queued_max: int = 1000) -> None:
        self.queue: list[tuple[str, IoWork, Callable[[], object], Callable[[], object]]] = []
        self.queued_max = queued_max
        self.submitted = 0
        self._work_came = asyncio.Event()

    def submit(self, log_dir: str, kind: IoWork, work: Callable[[], object], then: Callable[[], object]) -> bool:
        if len(self.queue) >= self.queued_max:
            return False
        self.submitted += 1
        self._work_came.set()
        self.queue.append((log_dir, kind, work, then))
        return True

    async def wait_work(self) -> None:
        """Until there has been any."""
        await self._work_came.wait()

    def step(self, between: Callable[[], object] = lambda: None) -> IoWork:
        """The oldest work runs in a thread to its end, `between` happens, and the loop hears of it."""
        _, kind, work, then = self.queue.pop(0)
        thread = threading.Thread(target=work, name="io")
        thread.start()
        thread.join()
        between()
        then()
        return kind
