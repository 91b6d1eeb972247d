"""The node's periodic jobs by name: when each one runs, how long it took, and how often it failed.

A job runs at fixed multiples of its interval from the start on, without jitter, and never twice at once: a turn is
skipped while the one before it still runs. Blocking work goes through `in_thread`. `stop` waits for these threads, so
that nothing writes into a log dir that is being closed; `storage/disk/stop_wait.py` says how long it waits for a log
dir that hangs.

An error of a disk fails only this run: it is logged and counted, and the job runs again at its next turn. Any other
error of a job is a bug, and fatal. Not here: the jobs (the other modules of this folder), the flushes that appends
ask for (`storage/log/group_commit.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from penstock.clock import Clock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, in_seconds, measured
from penstock.tasks import watch
from penstock.threads import Threads
from storage.disk.stop_wait import StopWait

_log = logging.getLogger(__name__)

THREADS = 2
"""The threads of each log dir. A slow deletion does not hold up the checkpoints, and more would only queue at the same
disk."""

P = ParamSpec("P")
T = TypeVar("T")


@measured
class JobStatistics:
    """A snapshot of one job."""

    name: str
    runs: int = counter("penstock_scheduled_runs", "Runs of a periodic job.")
    failures: int = counter("penstock_scheduled_failures", "Runs of a periodic job that a disk made fail.")
    last_duration_ms: int = gauge(
        "penstock_scheduled_last_run_seconds", "How long the last run of a periodic job took.", in_seconds
    )
    """-1 before the first run has ended."""
    is_running: bool


@dataclass(slots=True, eq=False)
class _Job:
    name: str
    interval_ms: int
    run: Callable[[], Awaitable[None]]
    runs: int = 0
    failures: int = 0
    last_duration_ms: int = -1
    running: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """An event that is set when the job need not wait for its turn: its interval has changed, or the scheduler
    stops."""


class Scheduler:
    """Runs the periodic jobs. There is one per node. Jobs are added before `start`; everything but `in_thread`'s work
    runs on the event loop."""

    def __init__(self, clock: Clock, threads: Threads, on_fatal: Callable[[BaseException], None]) -> None:
        self._clock, self._threads = clock, threads
        self._on_fatal = on_fatal
        self._jobs: dict[str, _Job] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._executors: dict[str, Executor] = {}
        self._under_way: dict[Future[Any], str] = {}
        """Work in threads, and its log dir."""

    def add(self, name: str, interval_ms: int, run: Callable[[], Awaitable[None]]) -> None:
        """Adds a job: from `start` on, `run` is called every `interval_ms`, for the first time after one interval."""
        if name in self._jobs:
            raise ValueError(f"there is a job {name} already")
        self._jobs[name] = _Job(name, max(1, interval_ms), run)

    def change_interval(self, name: str, interval_ms: int) -> None:
        """Makes the job run every `interval_ms` from now on; nothing if there is no such job."""
        job = self._jobs.get(name)
        if job is not None and job.interval_ms != max(1, interval_ms):
            job.interval_ms = max(1, interval_ms)
            job.wake.set()

    def add_for_each(
        self, log_dirs: Sequence[str], name: str, interval_ms: int, run: Callable[[str], Awaitable[None]]
    ) -> None:
        """A job for each log dir, so that one that hangs holds up no other; with several dirs, its name says which."""
        for log_dir in log_dirs:
            self.add(f"{name} {log_dir}" if len(log_dirs) > 1 else name, interval_ms, partial(run, log_dir))

    def start(self) -> None:
        for job in self._jobs.values():
            task = asyncio.create_task(self._repeat(job), name=job.name)
            watch(task, self._on_fatal)
            self._tasks.append(task)

    async def stop(self, wait: StopWait) -> None:
        """Begin no more runs, and wait for those under way, except in log dirs that are given up."""
        self._is_stopping = True
        for job in self._jobs.values():
            job.wake.set()
        await wait.until_idle(self._log_dirs_under_way)
        if wait.given_up:  # all that is under way is there, and will not end
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for log_dir, executor in self._executors.items():
            executor.shutdown(wait=log_dir not in wait.given_up, cancel_futures=True)

    def _log_dirs_under_way(self) -> set[str]:
        return set(self._under_way.values())

    async def in_thread(self, log_dir: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work on a log dir in a thread, and wait for it. Each dir has threads of its own: a dir that hangs
        blocks only its own."""
        executor = self._executors.get(log_dir)
        if executor is None:
            executor = self._executors[log_dir] = self._threads.executor("upkeep", THREADS)
        return await self.in_executor(executor, log_dir, lambda: work(*args, **kwargs))

    async def in_executor(self, executor: Executor, log_dir: str, work: Callable[[], T]) -> T:
        """Does blocking work in another part's threads; `stop` waits for these as well."""
        future = executor.submit(work)
        self._under_way[future] = log_dir
        try:
            return await asyncio.wrap_future(future)
        finally:  # BEFORE the job does anything else: `stop` finds no gap between two steps of one job
            if future.done():
                del self._under_way[future]
            else:  # the job was cancelled; its thread goes on
                future.add_done_callback(lambda done: self._under_way.pop(done, None))

    async def _repeat(self, job: _Job) -> None:
        due_ms = self._clock.now_ms() + job.interval_ms
        while not self._is_stopping:
            if await self._woken_before(job, due_ms):
                job.wake.clear()
                due_ms = self._clock.now_ms() + job.interval_ms
                continue
            await self._run(job)
            left_out = max(0, self._clock.now_ms() - due_ms) // job.interval_ms
            due_ms += (1 + left_out) * job.interval_ms

    async def _woken_before(self, job: _Job, due_ms: int) -> bool:
        try:
            async with asyncio.timeout(max(0, due_ms - self._clock.now_ms()) / 1000):
                await job.wake.wait()
        except TimeoutError:
            return False
        return True

    async def _run(self, job: _Job) -> None:
        started_ms, job.running = self._clock.now_ms(), True
        try:
            await job.run()
        except (OSError, KafkaStorageError, CorruptFileError) as error:
            job.failures += 1
            _log.error("%s failed: %s; it runs again in %d ms", job.name, error, job.interval_ms)
        finally:
            job.running = False
            job.runs += 1
            job.last_duration_ms = self._clock.now_ms() - started_ms

    def statistics(self) -> tuple[JobStatistics, ...]:
        return tuple(
            JobStatistics(job.name, job.runs, job.failures, job.last_duration_ms, job.running)
            for job in tuple(self._jobs.values())
        )

    def __repr__(self) -> str:
        running = [job.name for job in self._jobs.values() if job.running]
        return f"Scheduler({len(self._jobs)} jobs, running {', '.join(running) or 'none'})"
