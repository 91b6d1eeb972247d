"""Gives up a log dir whose disk hangs: one call to it has been under way for longer than `log.dir.hang.ms.max`.

A disk that hangs reports no error. Its node's heartbeats need no disk, so the node would stay in service, and keep
leaderships that it cannot serve, for as long as the disk hangs. So silence counts as a failure, as EIO does: the dir is
offline until the next start, the next heartbeat says so (KIP-858), and other replicas lead. A node whose metadata log
is there ends.

Not here: the age of a call (`storage/disk/call_watch.py`), what fails with a log dir
(`broker/replication/disk_failures.py`), and what becomes of the node (`broker/node/node.py`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from penstock.clock import Clock
from penstock.tasks import watch
from storage.disk.call_watch import LOOK_MS, CallWatch

_log = logging.getLogger(__name__)


class LogDirWatch:
    """Watches the log dirs. There is one per node, on the event loop."""

    def __init__(
        self,
        calls: CallWatch,
        limit_ms: int,
        clock: Clock,
        on_log_dir_failed: Callable[[str, Exception], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._calls, self._limit_ms, self._clock = calls, limit_ms, clock
        self._on_log_dir_failed, self._on_fatal = on_log_dir_failed, on_fatal
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_now_and_then(), name="log-dir-watch")
        watch(self._looking, self._on_fatal)

    async def _look_now_and_then(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_MS / 1000)

    def look(self) -> None:
        """Give up every log dir whose oldest call is too old."""
        for log_dir, call in self._calls.look(self._clock.now_ms()).items():
            if call.age_ms >= self._limit_ms and log_dir not in self._calls.given_up:
                said = f"it hangs: a call ({call.operation}) has not come back for {call.age_ms} ms"
                _log.error("%s has failed: %s (log.dir.hang.ms.max = %d)", log_dir, said, self._limit_ms)
                self._calls.give_up(log_dir)  # BEFORE: nothing that follows may wait for it
                self._on_log_dir_failed(log_dir, OSError(errno.ETIMEDOUT, said, log_dir))

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def __repr__(self) -> str:
        return f"LogDirWatch({self._limit_ms} ms, {self._calls!r})"
