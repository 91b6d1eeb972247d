"""Makes advanced log starts durable: one checkpoint write at a time, for everybody who waits.

A log start is only in memory until its checkpoint is written, so deleted records could come back after a crash. Who
promises that they do not (a leader in its answer, a follower in its next fetch) does so AFTER `request` has called
back. Requests that come during a write are covered by the next one. A write that fails is told and not repeated here:
the waiters know whether to ask again, and a log dir that refuses fails only who waits for it. The periodic checkpoint
writes the same files. Not here: what moves a log start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.errors import ApiError, KafkaStorageError

Waiter = Callable[[ApiError | None], None]


@dataclass(frozen=True, slots=True)
class LogStartCommitStatistics:
    """A snapshot; `requests / writes` is how many waiters one write serves."""

    requests: int
    writes: int
    failures: int
    waiting: int


class LogStartCommit:
    """One per node, on its event loop; `write` blocks, runs elsewhere, and tells which log dirs failed."""

    def __init__(self, write: Callable[[], Mapping[str, ApiError]]) -> None:
        self._write = write
        self._waiting: list[tuple[str, Waiter]] = []
        self._under_way: asyncio.Future[Mapping[str, ApiError]] | None = None
        self._requests = self._writes = self._failures = 0
        self._closed = False

    def request(self, log_dir: str, done: Waiter) -> None:
        """Call `done(None)` once every log start that the log dir has now is durable, or `done(error)`."""
        if self._closed:
            return
        self._requests += 1
        self._waiting.append((log_dir, done))
        if self._under_way is None:
            self._start()

    def _start(self) -> None:
        served, self._waiting = self._waiting, []
        self._writes += 1
        self._under_way = asyncio.get_running_loop().run_in_executor(None, self._write)
        self._under_way.add_done_callback(lambda written: self._written(written, served))

    def _written(self, written: asyncio.Future[Mapping[str, ApiError]], served: list[tuple[str, Waiter]]) -> None:
        self._under_way = None
        if self._waiting:
            self._start()
        bug = written.exception()
        failures = {} if bug is not None else written.result()
        self._failures += bug is not None or bool(failures)
        for log_dir, done in served:
            if bug is not None:  # whatever went wrong, nothing was promised
                done(KafkaStorageError(f"{log_dir}: the log starts were not written: {bug!r}"))
            else:
                done(failures.get(log_dir))

    async def close(self) -> None:
        """Take no more requests, and wait until nothing writes."""
        self._closed = True
        self._waiting.clear()
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    def statistics(self) -> LogStartCommitStatistics:
        return LogStartCommitStatistics(self._requests, self._writes, self._failures, len(self._waiting))

    def __repr__(self) -> str:
        state = "writing" if self._under_way is not None else "idle"
        return f"LogStartCommit({state}, {len(self._waiting)} waiting)"
