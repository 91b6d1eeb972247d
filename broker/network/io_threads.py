"""The `num.io.threads`: threads for work that may wait for a disk, so that the event loop never does.

Work goes to a thread of its log dir and comes back to the loop as an event. The threads are divided among the log dirs,
at least one for each, so that a disk that hangs takes only its own share. The queue before the threads of a log dir is
bounded: a caller that finds it full keeps the work, and tries again later. A thread starts when it is needed, and is a
daemon: a node that ends does not wait for a read.

Used on the event loop. The work is in `apis/fetch_sessions/cold_fetches.py` and `apis/list_offsets.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

from broker.load.busy_time import BusyTime
from penstock.metric_fields import counter, gauge, measured
from penstock.threads import Threads
from storage.disk.dir_threads import DirThreads, NoThreadError

QUEUED_MAX = 256
"""Pieces of work that a log dir's threads have not begun. Each is at most one read of a MiB, or one look-up."""


class IoWork(StrEnum):
    """A kind of work for a thread."""

    READ = "read"
    """Records that a fetch wants and that are not in the page cache."""
    LOOK_UP = "look_up"
    """A look-up of a record by its time."""


class IoPort(Protocol):
    """The I/O threads, as the APIs use them."""

    def submit(self, log_dir: str, kind: IoWork, work: Callable[[], object], then: Callable[[], object]) -> bool:
        """Have `work` done in a thread of the log dir, and `then` on the loop. False: the queue is full, and neither
        will be called. `work` raises nothing; `then` is not called once the loop is closed."""
        ...


@measured
class IoThreadsStatistics:
    """Threads and queued work now, and what was done and refused since the start."""

    threads: int = gauge("penstock_io_threads", "Threads for what may wait for a disk (num.io.threads).")
    busy: int = gauge("penstock_io_threads_busy", "I/O threads that wait for a disk or work.")
    queued: int = gauge("penstock_io_queue_size", "Reads and look-ups that wait for an I/O thread.")
    done: Mapping[IoWork, int]
    refused: int = counter(
        "penstock_io_queue_refusals", "Times that work was not given to an I/O thread because its queue was full."
    )


class IoThreads:
    """The I/O threads of a node. There is one object per node."""

    def __init__(
        self, threads: Threads, threads_max: int, log_dirs: int, busy: BusyTime, now_ns: Callable[[], int]
    ) -> None:
        self._threads = threads
        self._threads_per_dir = max(1, threads_max // max(1, log_dirs))
        self._threads_max = self._threads_per_dir * max(1, log_dirs)
        self._busy, self._now_ns = busy, now_ns
        self._dirs: dict[str, DirThreads] = {}
        self._done: Counter[IoWork] = Counter()
        self._refused = 0

    def submit(self, log_dir: str, kind: IoWork, work: Callable[[], object], then: Callable[[], object]) -> bool:
        """See IoPort."""
        threads = self._dirs.get(log_dir)
        if threads is None:
            threads = self._dirs[log_dir] = DirThreads(self._threads, "io", self._threads_per_dir)

        def done(bug: BaseException | None) -> None:
            if bug is not None:
                raise bug
            began_ns = self._now_ns()
            self._done[kind] += 1
            then()
            self._busy.add_busy(began_ns, self._now_ns())

        if threads.waiting < QUEUED_MAX:
            with suppress(NoThreadError, MemoryError):
                threads.run(work, done)
                return True
        self._refused += 1
        return False

    def close(self) -> None:
        """The threads end after their present work; the stop does not wait for them."""
        for threads in self._dirs.values():
            threads.close(wait=False)
        self._dirs.clear()

    def statistics(self) -> IoThreadsStatistics:
        dirs = tuple(self._dirs.values())
        busy, queued = sum(threads.working for threads in dirs), sum(threads.waiting for threads in dirs)
        return IoThreadsStatistics(self._threads_max, busy, queued, dict(self._done), self._refused)

    def __repr__(self) -> str:
        return f"IoThreads({self.statistics()})"
