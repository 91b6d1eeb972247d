"""Where requests wait without holding a handler: for an offset to be reached, or for a time-out.

`OffsetWaiters` keeps the waiters for one partition's high watermark or flushed offset, in the order of their offsets:
the waiters below a reached offset are at the left. `LowWatermarkWaiters` keeps deletions, whose offsets have no
order. `DelayedOperation` is one delete-records request waiting for all its partitions. A produce request waits in its
answer (apis/producing/delayed_produce.py), a delayed fetch in its session (fetch_session.py). Source: Kafka's
DelayedOperationPurgatory, reduced to what an event loop needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.errors import ApiError, NotEnoughReplicasAfterAppendError

Waiter = Callable[[ApiError | None], None]


class OffsetWaiters:
    """Callbacks in the order of the offsets that they wait for. A duplicate waits for an older offset than others."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter]] = deque()

    def add(self, offset: int, waiter: Waiter) -> None:
        """Call `waiter(None)` once `offset` is reached."""
        waiting = self._waiting
        if waiting and offset < waiting[-1][0]:
            at = next(at for at, (later, _) in enumerate(waiting) if later > offset)
            waiting.insert(at, (offset, waiter))
        else:
            waiting.append((offset, waiter))

    def discard(self, waiter: Waiter) -> None:
        """The waiter waits no more. It is looked for from the left, because the oldest waiters give up first."""
        for at, (_, found) in enumerate(self._waiting):
            if found is waiter:
                del self._waiting[at]
                return

    def reached(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1](None)

    def fail_all(self, error: ApiError) -> None:
        """Every waiter has appended, so none gets an error that says "nothing was written": a producer would not count
        the duplicates of its retry."""
        if error.nothing_written:
            why = f"the records were appended, but not acked before this: {error}"
            error = NotEnoughReplicasAfterAppendError(why, leader=error.leader)
        waiting, self._waiting = self._waiting, deque()
        for _, waiter in waiting:
            waiter(error)

    def __len__(self) -> int:
        return len(self._waiting)


class LowWatermarkWaiters:
    """Callbacks that wait for the low watermark of one partition; there are few, so all are checked each time."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, Waiter]] = {}
        self._added = 0

    def add(self, offset: int, waiter: Waiter) -> int:
        """Call `waiter(None)` once `offset` is reached; returns the number for `discard`."""
        self._added += 1
        self._waiting[self._added] = (offset, waiter)
        return self._added

    def discard(self, number: int) -> None:
        self._waiting.pop(number, None)

    def reached(self, offset: int) -> None:
        for number, (wanted, waiter) in tuple(self._waiting.items()):
            if wanted <= offset:
                del self._waiting[number]
                waiter(None)

    def fail_all(self, error: ApiError) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, waiter in waiting.values():
            waiter(error)

    def __len__(self) -> int:
        return len(self._waiting)


class DelayedOperation:
    """A request of several partitions: complete when each of them is done, or when its time is up.

    A partition may be done before the others are expected: a disk that fails under one partition fails its neighbours
    in the same call. So nothing is complete BEFORE `all_expected`, or the others would be answered before they are
    done. `on_complete` is called once. `expire` answers the partitions that are still open through `on_expired(index)`.
    """

    __slots__ = ("_all_expected", "_done", "_on_complete", "_on_expired", "_open")

    def __init__(self, on_complete: Callable[[], None], on_expired: Callable[[int], None]) -> None:
        self._open: set[int] = set()
        self._on_complete = on_complete
        self._on_expired = on_expired
        self._all_expected = self._done = False

    def expect(self, index: int) -> None:
        self._open.add(index)

    def all_expected(self) -> bool:
        """No other partition follows. True when some are still open; otherwise the request is complete now."""
        self._all_expected = True
        self._maybe_finish()
        return not self._done

    def partition_done(self, index: int) -> None:
        self._open.discard(index)
        self._maybe_finish()

    def _maybe_finish(self) -> None:
        if self._all_expected and not self._open:
            self._finish()

    def expire(self) -> None:
        """The request's time is up: open partitions may or may not be done later."""
        if not self._done:
            for index in sorted(self._open):
                self._on_expired(index)
            self._open.clear()
            self._finish()

    def _finish(self) -> None:
        if not self._done:
            self._done = True
            self._on_complete()
