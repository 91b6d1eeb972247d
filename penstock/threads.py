"""Threads and what they share, injected: every part that needs a thread, a lock or an executor gets a `Threads`.

`SystemThreads` gives the machine's. A simulation gives threads that run as steps of one thread
(`tests/support/stepped_threads.py`). Such a step runs to its end or to a call that waits, so no work given to a thread
may loop around a queue for ever: work that comes one piece at a time goes to `workers` or to an `executor`.

Not here: asyncio's tasks, timers and locks. They belong to the event loop, and a simulation brings its own loop.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Thread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for `timeout` seconds."""
        ...

    def is_alive(self) -> bool: ...


class Lock(Protocol):
    """A lock, held by one thread at a time; not reentrant."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def locked(self) -> bool: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Event(Protocol):
    """Something that happens once, and that threads wait for."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for `timeout` seconds; whether it is set."""
        ...


class Queue(Protocol[T]):
    """Items from threads to threads, in order, without a limit: the caller of `put` bounds their number."""

    def put(self, item: T) -> None: ...

    def get(self) -> T:
        """The oldest item; waits for one."""
        ...


class Workers(Protocol):
    """Daemon threads that serve one queue of work. Used from one thread."""

    @property
    def count(self) -> int:
        """Threads that were started."""
        ...

    def grow(self) -> None:
        """Start one more thread; RuntimeError or MemoryError where the system gives none."""
        ...

    def put(self, work: Callable[[], object]) -> None:
        """Have the next free thread do it. `work` raises nothing."""
        ...

    def close(self, *, wait: bool = True) -> None:
        """Let the threads go after what was put; `wait`: blocks until they are gone."""
        ...


class Threads(Protocol):
    """Makes threads and what they share. Safe to call from any thread."""

    def start(self, name: str, work: Callable[[], object], *, daemon: bool = False) -> Thread:
        """A thread that does `work` and ends; RuntimeError or MemoryError where the system gives none."""
        ...

    def workers(self, name: str) -> Workers:
        """Has no thread at first. The threads are called `name-0`, `name-1`, …"""
        ...

    def executor(self, name: str, threads: int) -> Executor:
        """An executor of at most `threads` threads, started when they are needed and called `name_0`, `name_1`, …"""
        ...

    def lock(self) -> Lock: ...

    def event(self) -> Event: ...

    def queue(self) -> Queue[Any]: ...

    def pause(self, seconds: float) -> None:
        """Let the calling thread wait."""
        ...

    def own_native_id(self) -> int:
        """The system's number of the calling thread."""
        ...

    def names(self) -> dict[int, str]:
        """The names of the Python threads that live, by the system's number."""
        ...


class SystemThreads:
    """The machine's threads."""

    def start(self, name: str, work: Callable[[], object], *, daemon: bool = False) -> Thread:
        thread = threading.Thread(target=work, name=name, daemon=daemon)
        thread.start()
        return thread

    def workers(self, name: str) -> Workers:
        return _SystemWorkers(name)

    def executor(self, name: str, threads: int) -> Executor:
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def lock(self) -> Lock:
        return threading.Lock()

    def event(self) -> Event:
        return _SystemEvent()

    def queue(self) -> Queue[Any]:
        return queue.SimpleQueue()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def own_native_id(self) -> int:
        return threading.get_native_id()

    def names(self) -> dict[int, str]:
        return {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id is not None}

    def __repr__(self) -> str:
        return "SystemThreads()"


class _SystemEvent:
    """An event whose waiters may be interrupted at any moment, by Ctrl-C.

    `threading.Event` may then keep its own lock: the next `set` blocks for ever, or raises. Here each waiter has a
    lock, which is released once, by the thread that took it out of the deque; one that was left behind costs nothing.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: deque[threading.Lock] = deque()

    def set(self) -> None:
        self._is_set = True  # BEFORE waiters are looked for: one that comes later sees it
        while True:
            try:
                waiter = self._waiters.pop()
            except IndexError:
                return
            waiter.release()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            if self._is_set:
                return True
            longest = threading.TIMEOUT_MAX if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
            return waiter.acquire(timeout=longest) or self._is_set
        finally:
            with contextlib.suppress(ValueError):  # it was taken out by `set`
                self._waiters.remove(waiter)

    def __repr__(self) -> str:
        return f"_SystemEvent({'set' if self._is_set else 'not set'}, {len(self._waiters)} wait)"


class _SystemWorkers:
    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: list[threading.Thread] = []
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    @property
    def count(self) -> int:
        return len(self._threads)

    def grow(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def put(self, work: Callable[[], object]) -> None:
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # what it holds must not live until the next work comes

    def close(self, *, wait: bool = True) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()
        self._threads.clear()

    def __repr__(self) -> str:
        return f"_SystemWorkers({self._name}, {len(self._threads)} threads)"
