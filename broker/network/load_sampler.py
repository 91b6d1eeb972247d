"""Samples the node's load while it runs, and how late its event loop is. The driver of node_load.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from broker.network.busy_time import BusyTimes
from broker.network.node_load import NodeLoad
from broker.network.thread_times import python_threads, read_thread_times

LAG_SECONDS = 0.25
"""How often the loop's lag is looked at."""
LOOKS_PER_SAMPLE = 4


class LoadSampler:
    """`on_lag` is given how many seconds later than asked for the loop came back."""

    def __init__(self, load: NodeLoad, busy: BusyTimes, on_lag: Callable[[float], None]) -> None:
        self._load = load
        self._busy = busy
        self._on_lag = on_lag
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="load-sampler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self.sample()
            for _ in range(LOOKS_PER_SAMPLE):
                due_s = time.monotonic() + LAG_SECONDS
                await asyncio.sleep(LAG_SECONDS)
                self._on_lag(max(0.0, time.monotonic() - due_s))

    def sample(self) -> None:
        """Once, now; on the loop's thread."""
        self._load.sample(time.monotonic_ns(), read_thread_times(), python_threads(), self._busy.totals_ns())
