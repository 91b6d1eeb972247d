"""Samples the node's load while it runs, and how late its event loop is. The driver of node_load.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker.load.busy_time import BusyTimes
from broker.load.node_load import NodeLoad
from broker.load.thread_times import ThreadTime
from penstock.clock import Clock
from penstock.threads import Threads

LAG_NS = 250_000_000
"""How often the loop's lag is looked at."""
LOOKS_PER_SAMPLE = 4


class LoadSampler:
    """`on_lag` is given how many seconds later than asked for the loop came back."""

    def __init__(
        self,
        load: NodeLoad,
        busy: BusyTimes,
        on_lag: Callable[[float], None],
        clock: Clock,
        threads: Threads,
        thread_times: Callable[[], Mapping[int, ThreadTime]],
        idle_processors: Callable[[], Mapping[int, int]],
    ) -> None:
        self._load = load
        self._busy = busy
        self._clock, self._threads = clock, threads
        self._thread_times, self._idle_processors = thread_times, idle_processors
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
                due_ns = self._clock.now_ns() + LAG_NS
                await asyncio.sleep(LAG_NS / 1e9)
                self._on_lag(max(0, self._clock.now_ns() - due_ns) / 1e9)

    def sample(self) -> None:
        """Takes one sample now, on the loop's thread."""
        self._load.sample(
            self._clock.now_ns(),
            self._thread_times(),
            self._threads.names(),
            self._busy.totals_ns(),
            self._idle_processors(),
        )
