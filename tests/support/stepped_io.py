"""I/O threads whose work is done when the test says so: one piece at a time, each in a thread named "io"."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from broker.network.io_threads import IoWork


class SteppedIo:
    """Implements `broker.network.io_threads.IoPort` with a queue that the test works off."""

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
        """Waits until the first work was submitted."""
        await self._work_came.wait()

    def step(self, between: Callable[[], object] = lambda: None) -> IoWork:
        """Runs the oldest work in a thread to its end, then `between`, then what tells the loop."""
        _, kind, work, then = self.queue.pop(0)
        thread = threading.Thread(target=work, name="io")
        thread.start()
        thread.join()
        between()
        then()
        return kind
