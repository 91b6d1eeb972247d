"""Many waiters, one fdatasync: runs the flushes of all logs in a few threads, from the event loop.

`request` never waits. A log has at most one flush in flight; whatever is appended and requested meanwhile is covered by
the next one, so under load a flush serves all requests that came during the one before. A flush is prepared only when a
thread is free for it, at the end of the loop's turn, so that it covers as much as it can. On completion the log's
subscribers get the flushed offset, on the loop. Each log dir has threads of its own: a disk that takes ten seconds for
an fsync holds up no other.

A failed fsync is final (see `flush.py`): `on_failure(log_dir, error)` is called once for the log dir, no log in it is
flushed again, and no subscriber gets an offset for it. A flush that could not begin for lack of room, descriptors,
threads or memory has not failed: it is tried again after a pause, and its waiters go on waiting.

`flush.py` does one flush; the broker acks.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import field

from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from storage.disk.dir_threads import NoThreadError, OnDone
from storage.disk.disk_errors import FlushDeferredError, is_shortage
from storage.disk.flush_threads import FlushThreads
from storage.disk.postponed import Postponed
from storage.disk.stop_wait import StopWait
from storage.log.flush import PendingFlush
from storage.log.log import Log
from storage.log.log_types import GroupCommitStatistics

_log = logging.getLogger(__name__)

FLUSH_THREADS = 4
"""Flushes that may wait for one log dir at the same time; a journal serves concurrent ones with one commit."""

DEFERRED_MS = 1_000
"""Pause before a flush that found no room is tried again."""

OnFlushed = Callable[[int], None]
OnFailure = Callable[[str, OSError], None]


@dataclass(slots=True, eq=False)
class _LogDir:
    """The logs that wait for one log dir's threads, and these threads."""

    threads: FlushThreads
    queue: deque[Log] = field(default_factory=deque)
    idle: dict[Log, None] = field(default_factory=dict)
    """Logs for which no request waits: they are flushed when the queue is empty."""
    busy: int = 0


class GroupCommit:
    """Flushes logs on request. Everything but the blocking part runs on one event loop."""

    def __init__(
        self,
        on_failure: OnFailure,
        threads: Threads,
        flush_threads: int = FLUSH_THREADS,
        *,
        deferred_ms: int = DEFERRED_MS,
        on_timed: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_timed` is called with the time of each flush, good or failed."""
        self._on_timed = on_timed
        self._on_failure = on_failure
        self._flush_threads = flush_threads
        self._log_dirs = defaultdict[str, _LogDir](lambda: _LogDir(FlushThreads(threads, flush_threads)))
        self._subscribers: dict[Log, list[OnFlushed]] = {}
        self._queued: set[Log] = set()
        self._in_flight: set[Log] = set()
        self._failed: set[str] = set()
        self._deferred = Postponed(deferred_ms, self._try_again)
        self._rolling: set[Log] = set()
        """Full logs without anything to flush, whose disk is asked whether it answers."""
        self._turn_is_scheduled = False
        self._closing = False
        self._requests = self._flushes = 0

    def subscribe(self, log: Log, callback: OnFlushed) -> None:
        """`callback(flushed_offset)` after every flush of the log."""
        self._subscribers.setdefault(log, []).append(callback)

    def unsubscribe(self, log: Log) -> None:
        """Forget the log's callbacks; for a log that is closed."""
        self._subscribers.pop(log, None)
        if (log_dir := self._log_dirs.get(log.log_dir)) is not None:
            log_dir.idle.pop(log, None)
        self._deferred.drop(log)

    def request(self, log: Log) -> None:
        """Flush every record that is in the log now, by the log's flush policy."""
        self._requests += 1
        if log.settings.flush_policy == "os" and not self._closing:
            if log.flush_schedule.has_unflushed_segment and log not in self._in_flight:
                self.flush(log)  # nobody waits for it, as in Kafka
            asyncio.get_running_loop().call_soon(self._notify, log)
            if log.awaits_roll:
                self.flush(log)
        else:
            self.flush(log)

    def flush(self, log: Log) -> None:
        """Flushes to the disk, whatever the flush policy is; otherwise like `request`. For flush.messages, flush.ms and
        the schedule."""
        if self._closing or log in self._queued or log in self._deferred or log.log_dir in self._failed:
            return
        self._queued.add(log)
        log_dir = self._log_dirs[log.log_dir]
        log_dir.idle.pop(log, None)
        log_dir.queue.append(log)
        self._schedule_turn()

    def flush_when_idle(self, log: Log) -> None:
        """Flushes like `request`, but only when no other log of its dir waits and one thread stays free: no caller
        waits for this flush. A `request` for the same log replaces it."""
        if self._closing or log.settings.flush_policy == "os":
            return
        if not (log in self._queued or log in self._deferred or log.log_dir in self._failed):
            self._log_dirs[log.log_dir].idle[log] = None
            self._schedule_turn()

    def when_disk_answers(self, log: Log, then: OnDone, work: Callable[[], object] | None = None) -> None:
        """Call `then` on the loop once a sync of the log's directory has returned, with its error. For work that waits
        for the disk on the loop: if the disk hangs, that work is not begun, and the loop goes on. A failed sync fails
        the log dir, as that of a flush does, because the kernel reports it once. `work` is done in a thread in between;
        it may take long, so no flush waits for that thread."""
        loop = asyncio.get_running_loop()
        if log.log_dir in self._failed:
            loop.call_soon(then, OSError(errno.EIO, f"{log.log_dir} has failed"))
            return

        def answered(error: BaseException | None) -> None:
            if isinstance(error, OSError) and not (is_shortage(error) or isinstance(error, NoThreadError)):
                self._not_flushed(log, error)

        sync = functools.partial(log.full.run_file_changes, sync=True)
        self._log_dirs[log.log_dir].threads.ask(sync, answered, then, work)

    def _schedule_turn(self) -> None:
        if not self._turn_is_scheduled:
            self._turn_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_scheduled = False
        for log_dir in self._log_dirs.values():
            self._start_waiting(log_dir)

    def _start_waiting(self, log_dir: _LogDir) -> None:
        """Start as many flushes as there are threads; logs that are being flushed keep their place in the queue."""
        for _ in range(len(log_dir.queue)):
            if log_dir.busy >= self._flush_threads:
                return
            log = log_dir.queue.popleft()
            if log in self._in_flight:
                log_dir.queue.append(log)
                continue
            self._queued.discard(log)
            self._start(log, log_dir)
        while log_dir.idle and not log_dir.queue and log_dir.busy < max(1, self._flush_threads - 1):
            log = next(iter(log_dir.idle))
            del log_dir.idle[log]
            if log in self._in_flight:
                self.flush(log)  # once more, when that is done
            else:
                self._start(log, log_dir)

    def _start(self, log: Log, log_dir: _LogDir) -> None:
        if log.log_dir in self._failed or log in self._deferred:  # what was asked for meanwhile is part of the next try
            return
        pending = None
        try:
            pending = log.prepare_flush()
            if pending is not None:
                self._run(log, log_dir, pending)
        except Exception as error:
            if pending is not None:
                pending.abandon()
            self._not_flushed(log, error)
            return
        if pending is None and log.awaits_roll and not log.closed and log not in self._rolling:
            self._rolling.add(log)
            self.when_disk_answers(log, functools.partial(self._roll_after, log))
        if pending is None:
            asyncio.get_running_loop().call_soon(
                self._notify, log
            )  # not here: other logs wait for the rest of the turn

    def _run(self, log: Log, log_dir: _LogDir, pending: PendingFlush) -> None:
        started_s = asyncio.get_running_loop().time()
        self._in_flight.add(log)  # BEFORE: a flush that a thread has must not count as refused
        try:
            log_dir.threads.flushes.run(pending.run, lambda error: self._done(log, log_dir, pending, error, started_s))
        except BaseException:
            self._in_flight.discard(log)  # no thread got it: it would be in flight for ever
            raise
        log_dir.busy += 1

    def _done(
        self, log: Log, log_dir: _LogDir, pending: PendingFlush, error: BaseException | None, started_s: float
    ) -> None:
        self._in_flight.remove(log)
        log_dir.busy -= 1
        self._flushes += 1
        self._on_timed(asyncio.get_running_loop().time() - started_s)
        if self._queued or log_dir.idle:
            self._schedule_turn()
        if error is None:
            self._deferred.has_room(log)
            log.complete_flush(pending)
            self._roll(log)
            self._notify(log)
        else:
            self._not_flushed(log, error)

    def _roll_after(self, log: Log, error: BaseException | None) -> None:
        """A sync of the log's directory, asked for because the log had nothing to flush."""
        self._rolling.discard(log)
        if error is None:
            self._roll(log)

    def _roll(self, log: Log) -> None:
        """Rolls the log, if it awaits that. Its disk has just answered, and no other name of it is to be synced."""
        error = log.try_roll() if log.awaits_roll and not log.closed else None
        if error is not None:
            self._not_flushed(log, error)

    def _not_flushed(self, log: Log, error: BaseException) -> None:
        """A lack of memory says as little about the disk as a lack of room: no sync has failed.

        The files of a log that was deleted may be gone. Any other error fails the log dir, for a deleted log too: the
        kernel reports a failed write once, and the next sync of that directory reports success.
        """
        if isinstance(error, FlushDeferredError | NoThreadError | MemoryError):
            self._defer(log, error)
        elif not (log.closed and isinstance(error, FileNotFoundError)):
            self._fail(log, error)

    def _defer(self, log: Log, error: FlushDeferredError | NoThreadError | MemoryError) -> None:
        """No room: nothing was flushed and nothing is lost. Requests that come meanwhile are part of the next try."""
        if log.closed or self._closing:
            return
        if self._deferred.put_off(log):
            _log.error("%s: the flush waits for room: %s", log.directory, str(error) or repr(error))

    def _try_again(self, log: Log) -> None:
        self.flush(log)

    def _notify(self, log: Log) -> None:
        if log.closed or log.log_dir in self._failed:
            return
        for callback in tuple(self._subscribers.get(log, ())):
            callback(log.flushed_offset)

    def _fail(self, log: Log, error: BaseException) -> None:
        """The flush did not happen, for whatever reason; a bug in it counts like a broken disk."""
        if not isinstance(error, OSError):
            error = OSError(errno.EIO, f"flush: {error!r}")
        log.fail_flush(error)
        if log.log_dir not in self._failed:
            self._failed.add(log.log_dir)
            self._on_failure(log.log_dir, error)

    async def close(self, wait: StopWait) -> None:
        """Take no more requests, finish what is queued and in flight, and let the threads go; those that stand in a log
        dir that was given up stay there."""
        await wait.until_idle(self._log_dirs_under_way)
        self._closing = True
        for log_dir in self._log_dirs.values():
            log_dir.idle.clear()
        self._deferred.close()  # the next start's recovery checks records that found no room until now
        for path, log_dir in self._log_dirs.items():
            log_dir.threads.close(wait=path not in wait.given_up)

    def _log_dirs_under_way(self) -> set[str]:
        if self._queued:
            self._schedule_turn()
        asked = {path for path, log_dir in self._log_dirs.items() if log_dir.threads.is_asked}
        return asked | {log.log_dir for log in self._queued | self._in_flight}

    def statistics(self) -> GroupCommitStatistics:
        return GroupCommitStatistics(
            requests=self._requests,
            flushes=self._flushes,
            in_flight=len(self._in_flight),
            queued=len(self._queued),
            failed_log_dirs=tuple(sorted(self._failed)),
            deferred=len(self._deferred),
            deferrals=self._deferred.count,
        )

    def __repr__(self) -> str:
        return (
            f"GroupCommit({len(self._in_flight)} in flight, {len(self._queued)} queued, failed {sorted(self._failed)})"
        )
