"""`Threads` without a thread: a thread's work is a step, and a seed decides which step is next.

A step runs to its end, or to a call that waits (a lock, a queue, an event, `join`). That call runs other steps until it
need not wait any more, and raises Deadlock if no step is left. `step` runs one step. `wake` is called for each step
that becomes ready, so that an event loop can run steps between its callbacks:
`SteppedThreads(random, loop.call_soon)`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

Work = Callable[[], object]
Wake = Callable[[Callable[[], object]], object]
MAIN = 1
"""The number of the only real thread."""


class Deadlock(RuntimeError):
    """A call waits for something that no step brings."""


class _Line:
    """Work that is begun in order, by a number of threads."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.has_ended = False
        self.pieces: deque[Work] = deque()


class SteppedThreads:
    """One per process that is played, so that its threads can be dropped with it."""

    def __init__(self, choose: random.Random, wake: Wake | None = None) -> None:
        self._choose, self._wake = choose, wake
        self._lines: list[_Line] = []
        self._running: list[tuple[int, str]] = [(MAIN, "MainThread")]
        self._numbers = MAIN
        self.steps = 0

    # -- what runs the steps -------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Runs one step that is ready; returns False if there is none."""
        ready = [line for line in self._lines if line.pieces and line.threads]
        if not ready:
            return False
        line = ready[self._choose.randrange(len(ready))] if len(ready) > 1 else ready[0]
        work = line.pieces.popleft()
        self._numbers += 1
        self._running.append((self._numbers, line.name))
        self.steps += 1
        try:
            work()
        finally:
            self._running.pop()
        return True

    def run_until(self, has_come: Callable[[], bool], waiting: str) -> None:
        """Runs steps until `has_come()`; raises Deadlock if no step is left."""
        while not has_come():
            if not self.step():
                raise Deadlock(f"{self._running[-1][1]} waits for {waiting}, and no thread has anything to do")

    def run_all(self) -> None:
        """Runs steps until none is ready."""
        while self.step():
            pass

    def _add(self, line: _Line, work: Work) -> None:
        line.pieces.append(work)
        if self._wake is not None:
            self._wake(self.step)

    def _new_line(self, name: str, threads: int) -> _Line:
        self._lines = [line for line in self._lines if not line.has_ended]
        line = _Line(name, threads)
        self._lines.append(line)
        return line

    # -- Threads -------------------------------------------------------------------------------------------------------

    def start(self, name: str, work: Work, *, daemon: bool = False) -> _Thread:
        return _Thread(self, self._new_line(name, 1), work)

    def workers(self, name: str) -> _Workers:
        return _Workers(self, self._new_line(name, 0))

    def executor(self, name: str, threads: int) -> Executor:
        return _Executor(self, self._new_line(name, threads))

    def lock(self) -> _Lock:
        return _Lock(self)

    def event(self) -> _Event:
        return _Event(self)

    def queue(self) -> _Queue:
        return _Queue(self)

    def pause(self, seconds: float) -> None:
        self.step()

    def own_native_id(self) -> int:
        return self._running[-1][0]

    def names(self) -> dict[int, str]:
        return dict(self._running)

    def __repr__(self) -> str:
        waiting = sum(len(line.pieces) for line in self._lines)
        return f"SteppedThreads({self.steps} steps run, {waiting} waiting)"


class _Thread:
    def __init__(self, threads: SteppedThreads, line: _Line, work: Work) -> None:
        self._threads, self._line = threads, line
        threads._add(line, lambda: self._run(work))

    def _run(self, work: Work) -> None:
        try:
            work()
        finally:
            self._line.has_ended = True

    def join(self, timeout: float | None = None) -> None:
        if timeout is None:
            self._threads.run_until(lambda: self._line.has_ended, f"the end of {self._line.name}")
        else:
            self._threads.run_all()

    def is_alive(self) -> bool:
        return not self._line.has_ended


class _Workers:
    def __init__(self, threads: SteppedThreads, line: _Line) -> None:
        self._threads, self._line = threads, line

    @property
    def count(self) -> int:
        return self._line.threads

    def grow(self) -> None:
        self._line.threads += 1
        for _ in self._line.pieces if self._threads._wake is not None else ():
            self._threads._wake(self._threads.step)

    def put(self, work: Work) -> None:
        self._threads._add(self._line, work)

    def close(self, *, wait: bool = True) -> None:
        if wait and self._line.threads:
            self._threads.run_until(lambda: not self._line.pieces, f"the work of {self._line.name}")


class _Future(Future[Any]):
    """A wait for its result runs steps."""

    def __init__(self, threads: SteppedThreads) -> None:
        super().__init__()
        self._threads = threads

    def result(self, timeout: float | None = None) -> Any:
        self._threads.run_until(self.done, "a future")
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._threads.run_until(self.done, "a future")
        return super().exception(0)


class _Executor(Executor):
    def __init__(self, threads: SteppedThreads, line: _Line) -> None:
        self._threads, self._line = threads, line
        self._futures: deque[_Future] = deque()
        self._is_shut = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _Future(self._threads)
        self._futures.append(future)
        self._threads._add(self._line, lambda: self._run(future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self, future: _Future, work: Work) -> None:
        self._futures.remove(future)
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        if wait:
            self._threads.run_until(lambda: not self._line.pieces, f"the work of {self._line.name}")


class _Lock:
    def __init__(self, threads: SteppedThreads) -> None:
        self._threads = threads
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held and blocking:
            if timeout < 0:
                self._threads.run_until(lambda: not self._is_held, "a lock")
            else:
                self._threads.run_all()
        if self._is_held:
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class _Event:
    def __init__(self, threads: SteppedThreads) -> None:
        self._threads = threads
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """With a time-out, the time is over once no step is ready."""
        if timeout is None:
            self._threads.run_until(self.is_set, "an event")
        while timeout and not self._is_set and self._threads.step():
            pass
        return self._is_set


class _Queue:
    def __init__(self, threads: SteppedThreads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self) -> Any:
        self._threads.run_until(lambda: bool(self._items), "an item of a queue")
        return self._items.popleft()
