"""`penstock.threads.Threads` of a simulated process: its threads are fibers, and what they share parks them.

A fiber that waits for a lock, an event, a queue or a future is parked until what it waits for has come; which fiber is
next is the scheduler's choice. A thread begins, and goes on after a wait, some drawn microseconds late; so does one
that lets a lock go for which another waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

from tests.simulation.cluster.scheduler import Fiber, Process, Stuck

Work = Callable[[], object]
WAKE_SECONDS_MAX = 200e-6
"""How late a thread goes on, at most: other processes of a machine with few processors are in front of it."""
MAIN_NUMBER = 1


class Waiting:
    """A fiber that is parked, in the queue of what it waits for."""

    __slots__ = ("fiber", "is_late")

    def __init__(self, fiber: Fiber) -> None:
        self.fiber, self.is_late = fiber, False


class FiberThreads:
    """The threads of one process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def start(self, name: str, work: Work, *, daemon: bool = False) -> _Thread:
        return _Thread(self, name, work)

    def workers(self, name: str) -> _Workers:
        return _Workers(self, name)

    def executor(self, name: str, threads: int) -> Executor:
        return _Executor(self, name, threads)

    def lock(self) -> _Lock:
        return _Lock(self)

    def event(self) -> _Event:
        return _Event(self)

    def queue(self) -> _Queue:
        return _Queue(self)

    def pause(self, seconds: float) -> None:
        self.process.sleep(seconds)

    def own_native_id(self) -> int:
        fiber = self.process.current
        return fiber.number if fiber is not None else MAIN_NUMBER

    def names(self) -> dict[int, str]:
        return {MAIN_NUMBER: "MainThread"} | {f.number: f.name for f in self.process.fibers.values()}

    # -- for what is shared --------------------------------------------------------------------------------------------

    def wake_late(self) -> float:
        return self.process.scheduler.draw.random() * WAKE_SECONDS_MAX

    def begin(self, name: str, work: Work) -> None:
        """A thread, which begins a little later."""
        scheduler, process = self.process.scheduler, self.process
        scheduler.at(scheduler.now_s + self.wake_late(), process, lambda: process.begin(name, work))

    def wait(self, waiters: deque[Waiting], what: str, timeout: float | None = None) -> bool:
        """Parks the fiber that runs until somebody takes it out of `waiters` and wakes it; False: the time is over."""
        process = self.process
        if process.current is None:
            raise Stuck(f"{process.name}: a wait for {what} outside of a fiber")
        waiting = Waiting(process.current)
        waiters.append(waiting)
        if timeout is not None:
            due_s = process.scheduler.now_s + timeout
            process.scheduler.at(due_s, process, lambda: self._give_up(waiters, waiting))
        process.park()
        return not waiting.is_late

    def _give_up(self, waiters: deque[Waiting], waiting: Waiting) -> None:
        if waiting in waiters:
            waiters.remove(waiting)
            waiting.is_late = True
            self.process.resume(waiting.fiber)

    def wake(self, waiters: deque[Waiting]) -> None:
        """The first of the waiters goes on."""
        fiber, scheduler = waiters.popleft().fiber, self.process.scheduler
        scheduler.at(scheduler.now_s + self.wake_late(), self.process, lambda: self.process.resume(fiber))


class _Thread:
    def __init__(self, threads: FiberThreads, name: str, work: Work) -> None:
        self._ended = _Event(threads)
        threads.begin(name, lambda: self._run(work))

    def _run(self, work: Work) -> None:
        try:
            work()
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        return not self._ended.is_set()


class _Pool:
    """At most so many threads that take pieces of work from one queue; an idle one ends."""

    def __init__(self, threads: FiberThreads, name: str, threads_max: int) -> None:
        self._threads, self._name, self.threads_max = threads, name, threads_max
        self._pieces: deque[Work] = deque()
        self._working = 0
        self._idle = deque[Waiting]()

    def put(self, work: Work) -> None:
        self._pieces.append(work)
        self.begin_more()

    def begin_more(self) -> None:
        while self._working < min(self.threads_max, len(self._pieces) + self._working) and self._pieces:
            self._working += 1
            piece = self._pieces.popleft()
            self._threads.begin(f"{self._name}-{self._working}", lambda piece=piece: self._serve(piece))  # type: ignore[misc]

    def _serve(self, piece: Work) -> None:
        while True:
            piece()
            if not self._pieces:
                break
            piece = self._pieces.popleft()
        self._working -= 1
        if not self._working:
            while self._idle:
                self._threads.wake(self._idle)

    def wait_idle(self) -> None:
        while self._working:
            self._threads.wait(self._idle, f"the work of {self._name}")


class _Workers:
    def __init__(self, threads: FiberThreads, name: str) -> None:
        self._pool = _Pool(threads, name, 0)

    @property
    def count(self) -> int:
        return self._pool.threads_max

    def grow(self) -> None:
        self._pool.threads_max += 1
        self._pool.begin_more()

    def put(self, work: Work) -> None:
        self._pool.put(work)

    def close(self, *, wait: bool = True) -> None:
        if wait and self._pool.threads_max:
            self._pool.wait_idle()
        self._pool.threads_max = 0


class _Future(Future[Any]):
    """A fiber that waits for its result is parked."""

    def __init__(self, threads: FiberThreads) -> None:
        super().__init__()
        self._over = _Event(threads)
        self.add_done_callback(lambda _: self._over.set())

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._over.wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            self._over.wait(timeout)
        return super().exception(0)


class _Executor(Executor):
    def __init__(self, threads: FiberThreads, name: str, threads_max: int) -> None:
        self._threads = threads
        self._pool = _Pool(threads, name, threads_max)
        self._waiting: dict[_Future, None] = {}
        self._is_shut = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _Future(self._threads)
        self._waiting[future] = None
        self._pool.put(lambda: self._run(future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self, future: _Future, work: Callable[[], Any]) -> None:
        self._waiting.pop(future, None)
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        for future in tuple(self._waiting) if cancel_futures else ():
            future.cancel()
        if wait:
            self._pool.wait_idle()


class _Lock:
    def __init__(self, threads: FiberThreads) -> None:
        self._threads = threads
        self._is_held = False
        self._waiters: deque[Waiting] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_held:
            self._is_held = True
            return True
        if not blocking:
            return False
        return self._threads.wait(self._waiters, "a lock", None if timeout < 0 else timeout)

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        if self._waiters:  # it passes from hand to hand, and the thread that lets go may be preempted
            self._threads.wake(self._waiters)
            self._threads.pause(self._threads.wake_late())
        else:
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
    def __init__(self, threads: FiberThreads) -> None:
        self._threads = threads
        self._is_set = False
        self._waiters: deque[Waiting] = deque()

    def set(self) -> None:
        self._is_set = True
        while self._waiters:
            self._threads.wake(self._waiters)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set or timeout == 0:
            return self._is_set
        return self._threads.wait(self._waiters, "an event", timeout) or self._is_set


class _Queue:
    def __init__(self, threads: FiberThreads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()
        self._waiters: deque[Waiting] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiters:
            self._threads.wake(self._waiters)

    def get(self) -> Any:
        while not self._items:
            self._threads.wait(self._waiters, "an item of a queue")
        return self._items.popleft()
