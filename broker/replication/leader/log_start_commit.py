"""Makes advanced log starts durable: one checkpoint write at a time for each log dir, for all waiting requests.

A log start is only in memory until its checkpoint is written, so a crash could bring deleted records back. A leader's
answer, or a follower's next fetch, promises that they stay deleted; it is sent AFTER `request` has called back.
Requests that come during a write are covered by the next write. A failed write is reported to its waiters and not
repeated here: they decide whether to ask again. A log dir that refuses or hangs holds up only its own waiters. The
periodic checkpoint writes the same files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from penstock.errors import ApiError, KafkaStorageError
from penstock.metric_fields import counter, measured
from storage.disk.stop_wait import StopWait

Waiter = Callable[[ApiError | None], None]


@measured
class LogStartCommitStatistics:
    """A snapshot; `requests / writes` is how many waiters one write serves."""

    writes: int = counter(
        "penstock_log_start_commits", "Checkpoint writes that made log starts durable for deletions and followers."
    )
    requests: int = counter(
        "penstock_log_start_commit_requests",
        "Deletions and followers that waited for a write of log starts; a write serves all that wait.",
    )
    failures: int = counter("penstock_log_start_commit_failures", "Checkpoint writes of log starts that failed.")
    waiting: int


class LogStartCommit:
    """Makes the log starts of a node durable. There is one per node, on its event loop; `write(log_dir)` blocks, runs
    in the executor, and returns why it failed."""

    def __init__(self, write: Callable[[str], ApiError | None], executor: Executor) -> None:
        self._write, self._executor = write, executor
        self._waiting: dict[str, list[Waiter]] = {}
        self._under_way: dict[str, asyncio.Future[ApiError | None]] = {}
        self._requests = self._writes = self._failures = 0
        self._closed = False

    def request(self, log_dir: str, done: Waiter) -> None:
        """Call `done(None)` once every log start that the log dir has now is durable, or `done(error)`."""
        if self._closed:
            return
        self._requests += 1
        self._waiting.setdefault(log_dir, []).append(done)
        if log_dir not in self._under_way:
            self._start(log_dir)

    def _start(self, log_dir: str) -> None:
        served = self._waiting.pop(log_dir)
        self._writes += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, self._write, log_dir)
        self._under_way[log_dir] = future
        future.add_done_callback(partial(self._written, log_dir, served))

    def _written(self, log_dir: str, served: list[Waiter], written: asyncio.Future[ApiError | None]) -> None:
        del self._under_way[log_dir]
        if log_dir in self._waiting:
            self._start(log_dir)
        bug = written.exception()
        failure = written.result() if bug is None else None
        if bug is not None:  # nothing was promised
            failure = KafkaStorageError(f"{log_dir}: the log starts were not written: {bug!r}")
        self._failures += failure is not None
        for done in served:
            done(failure)

    async def close(self, wait: StopWait) -> None:
        """Take no more requests, wait for the writes in all log dirs that are not given up, and end the threads."""
        self._closed = True
        self._waiting.clear()
        await wait.until_idle(self._under_way.keys)
        self._executor.shutdown(wait=False)

    def statistics(self) -> LogStartCommitStatistics:
        """May be called in any thread."""
        waiting = sum(map(len, tuple(self._waiting.values())))
        return LogStartCommitStatistics(self._writes, self._requests, self._failures, waiting)

    def __repr__(self) -> str:
        writing = ", ".join(self._under_way) or "nothing"
        return f"LogStartCommit(writing {writing}, {sum(map(len, self._waiting.values()))} waiting)"
