"""Many waiters, one fdatasync: runs the flushes of all logs in a few threads, from the event loop.

`request` never waits. A log has at most one flush in flight; whatever is appended and requested meanwhile is covered by
the next one, so under load a flush serves all requests that came during the one before. A flush is prepared only when a
thread is free for it, at the end of the loop's turn, so that it covers as much as it can. On completion the log's
subscribers get the flushed offset, on the loop.

A failed fsync is final (ATC'20): `on_failure(log_dir, error)` is called once for the log dir, no log in it is flushed
again, and nobody who waits for one is told that it was. Not here: what a flush does (`flush.py`), acks (broker).
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from storage.flush import PendingFlush
from storage.log import Log

FLUSH_THREADS = 4
"""Flushes that may wait for a disk at the same time; a journal serves concurrent ones with one commit."""

OnFlushed = Callable[[int], None]
OnFailure = Callable[[str, OSError], None]


@dataclass(frozen=True, slots=True)
class GroupCommitStatistics:
    """A snapshot; `requests / flushes` is how many waiters one fdatasync serves."""

    requests: int
    flushes: int
    in_flight: int
    queued: int
    failed_log_dirs: tuple[str, ...]


class GroupCommit:
    """Flushes logs on request. Everything but the blocking part runs on one event loop."""

    def __init__(self, on_failure: OnFailure, threads: int = FLUSH_THREADS) -> None:
        self._on_failure = on_failure
        self._threads = threads
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="flush")
        self._subscribers: dict[Log, list[OnFlushed]] = {}
        self._queue: deque[Log] = deque()
        self._queued: set[Log] = set()
        self._in_flight: dict[Log, asyncio.Future[None]] = {}
        self._failed: set[str] = set()
        self._turn_is_scheduled = False
        self._closing = False
        self._requests = self._flushes = 0

    def subscribe(self, log: Log, callback: OnFlushed) -> None:
        """`callback(flushed_offset)` after every flush of the log."""
        self._subscribers.setdefault(log, []).append(callback)

    def unsubscribe(self, log: Log) -> None:
        """Forget the log's callbacks; for a log that is closed."""
        self._subscribers.pop(log, None)

    def request(self, log: Log) -> None:
        """See that everything that is in the log now is flushed, by the log's flush policy."""
        self._requests += 1
        if log.flush_policy == "os" and not self._closing:
            asyncio.get_running_loop().call_soon(self._tell, log)
        else:
            self.flush(log)

    def flush(self, log: Log) -> None:
        """Like `request`, but to the disk whatever the flush policy: for flush.messages, flush.ms and the schedule."""
        if self._closing or log in self._queued or log.log_dir in self._failed:
            return
        self._queued.add(log)
        self._queue.append(log)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._turn_is_scheduled:
            self._turn_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Start as many flushes as there are threads; logs that are being flushed keep their place in the queue."""
        self._turn_is_scheduled = False
        for _ in range(len(self._queue)):
            if len(self._in_flight) >= self._threads:
                return
            log = self._queue.popleft()
            if log in self._in_flight:
                self._queue.append(log)
                continue
            self._queued.discard(log)
            self._start(log)

    def _start(self, log: Log) -> None:
        if log.log_dir in self._failed:
            return
        try:
            pending = log.prepare_flush()
        except OSError as error:
            self._fail(log, error)
            return
        if pending is None:
            self._tell(log)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().run_in_executor(self._executor, pending.run)
        self._in_flight[log] = future
        future.add_done_callback(lambda done: self._done(log, pending, done))

    def _done(self, log: Log, pending: PendingFlush, done: asyncio.Future[None]) -> None:
        del self._in_flight[log]
        self._flushes += 1
        if self._queue:
            self._schedule_turn()
        error = done.exception()
        if error is None:
            log.complete_flush(pending)
            self._tell(log)
        elif not log.closed:  # a deleted log's files may be gone; nobody waits for it
            self._fail(log, error)

    def _tell(self, log: Log) -> None:
        if log.closed or log.log_dir in self._failed:
            return
        for callback in tuple(self._subscribers.get(log, ())):
            callback(log.flushed_offset)

    def _fail(self, log: Log, error: BaseException) -> None:
        """Whatever went wrong, the flush did not happen; a bug in it is no better than a broken disk."""
        if not isinstance(error, OSError):
            error = OSError(errno.EIO, f"flush: {error!r}")
        log.fail_flush(error)
        if log.log_dir not in self._failed:
            self._failed.add(log.log_dir)
            self._on_failure(log.log_dir, error)

    async def close(self) -> None:
        """Take no more requests, finish what is queued and in flight, and let the threads go."""
        while self._queue or self._in_flight:
            self._schedule_turn()
            if self._in_flight:
                await asyncio.wait(self._in_flight.values())
            await asyncio.sleep(0)
        self._closing = True
        self._executor.shutdown(wait=True)

    def statistics(self) -> GroupCommitStatistics:
        return GroupCommitStatistics(
            requests=self._requests,
            flushes=self._flushes,
            in_flight=len(self._in_flight),
            queued=len(self._queue),
            failed_log_dirs=tuple(sorted(self._failed)),
        )

    def __repr__(self) -> str:
        return (
            f"GroupCommit({len(self._in_flight)} in flight, {len(self._queue)} queued, failed {sorted(self._failed)})"
        )
