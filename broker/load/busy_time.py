"""Counts the event loop's time that each kind of work takes: one counter a kind; the work itself reports its time.

It is wall time between two readings of the clock, so a pause of the thread in the middle of a piece of work counts for
that work. node_load.py combines the counters with the threads' own times.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WorkKind(StrEnum):
    """The kinds of work on which a node spends its processor time."""

    NETWORK = "network"
    """Decoding requests and encoding answers."""
    HANDLERS = "handlers"
    """The APIs: appends, reads, look-ups, compression to a topic's `compression.type`."""
    FETCHERS = "fetchers"
    """Handling the fetch answers of leaders."""
    RAFT = "raft"
    """The quorum and the metadata log."""
    FLUSH = "flush"
    """Flushing logs to disk."""
    NATIVE = "native"
    """gRPC's own threads: sockets, HTTP/2."""
    OTHER = "other"
    """The rest: the loop's own work, periodic jobs, the cleaner, metrics."""


class BusyTime:
    """The time of one kind of work. Only rises."""

    __slots__ = ("now_ns", "total_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.total_ns = 0

    def add_busy(self, from_ns: int, to_ns: int) -> None:
        """The loop was occupied between two monotonic times."""
        self.total_ns += to_ns - from_ns

    async def timed(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the coroutine's result; each step of it on the loop is counted, its waiting is not."""
        return await _Timed(self, work)

    def __repr__(self) -> str:
        return f"BusyTime({self.total_ns / 1e9:.3f} s)"


class _Timed(Generic[T]):
    """Drives a coroutine step by step, and passes on the awaitables that it waits for."""

    __slots__ = ("_busy", "_work")

    def __init__(self, busy: BusyTime, work: Coroutine[Any, Any, T]) -> None:
        self._busy = busy
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        work, busy, now_ns = self._work, self._busy, self._busy.now_ns
        answer: Any = None
        error: BaseException | None = None
        while True:
            began_ns = now_ns()
            try:
                waits_for = work.send(answer) if error is None else work.throw(error)
            except StopIteration as ended:
                found: T = ended.value
                return found
            finally:
                busy.add_busy(began_ns, now_ns())
            answer = error = None
            try:
                answer = yield waits_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as thrown:
                error = thrown


class BusyTimes:
    """The counters of every kind that reports its time on the loop."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns` is monotonic."""
        self.network = BusyTime(now_ns)
        self.handlers = BusyTime(now_ns)
        self.fetchers = BusyTime(now_ns)
        self.raft = BusyTime(now_ns)

    def totals_ns(self) -> Mapping[WorkKind, int]:
        """The time since the start, by kind."""
        return {
            WorkKind.NETWORK: self.network.total_ns,
            WorkKind.HANDLERS: self.handlers.total_ns,
            WorkKind.FETCHERS: self.fetchers.total_ns,
            WorkKind.RAFT: self.raft.total_ns,
        }

    def __repr__(self) -> str:
        return f"BusyTimes({self.totals_ns()!r})"
