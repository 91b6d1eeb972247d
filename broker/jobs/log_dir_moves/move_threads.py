"""Threads for the blocking work of moves between log dirs: one for each log dir, so that one that hangs holds up no
other. The scheduler waits for them at a stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from broker.jobs.scheduler import Scheduler
from penstock.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")


class MoveThreads:
    """The threads of moves. There is one per broker, used on the event loop."""

    def __init__(self, scheduler: Scheduler, threads: Threads, log_dirs: tuple[str, ...]) -> None:
        self._scheduler = scheduler
        self._executors = {log_dir: threads.executor("log-dir-moves", 1) for log_dir in log_dirs}

    async def run(self, log_dir: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it in the log dir's thread, and wait for it."""
        return await self._scheduler.in_executor(self._executors[log_dir], log_dir, lambda: work(*args, **kwargs))

    def close(self) -> None:
        """Call it after the scheduler was stopped; a step that hangs keeps its thread."""
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return f"MoveThreads({', '.join(self._executors)})"
