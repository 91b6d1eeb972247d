"""The one background thread with an event loop on which every plain (not async) client of this process works.

Started at first use, never at import; a fork starts its own. The thread is a daemon, and at interpreter exit every
client that was forgotten open is closed within EXIT_SECONDS, so that neither a forgotten close nor a dead broker
keeps a program from ending. Not here: anything about clients.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import uvloop

from penstock.client import descriptors, forks
from penstock.client.forgotten import begin_alone
from penstock.errors import BootstrapError, CalledInCallbackError
from penstock.threads import SystemThreads

EXIT_SECONDS = 3.0
LOOP_FILES = 8
"""Descriptors that must be free for the loop: for its poll, its wake-ups and its signals."""
IN_CALLBACK = (
    "this call waits for the client's own thread, and that thread made it, in a callback of a future; have another"
    " thread make it"
)

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Closable(Protocol):
    """A client that can be closed at exit."""

    def close(self, timeout: float | None = None) -> None: ...


C = TypeVar("C", bound=Closable)


class _Call(Generic[T]):
    """A coroutine that runs on the loop for a thread that waits.

    `concurrent.futures.Future` has a condition, and a thread that is interrupted by Ctrl-C may keep the condition's
    lock: the loop would block for ever. The events of penstock/threads.py stand that.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._ended = SystemThreads().event()

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio logs one that nobody asks for, and the caller may have left
        self._ended.set()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def result(self, timeout: float | None) -> T:
        if not self._ended.wait(timeout) or self._task is None:
            raise concurrent.futures.TimeoutError
        if self._task.cancelled():
            raise concurrent.futures.CancelledError
        return self._task.result()


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._clients: weakref.WeakKeyDictionary[Closable, Callable[[Any, float], object]] = weakref.WeakKeyDictionary()
        self._adopted: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._run, name="penstock-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.pid == os.getpid()

    @property
    def is_current(self) -> bool:
        """True if the caller is on the loop: a callback of a future, say."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The result of a coroutine that runs on the loop; cancelled when the caller is interrupted or out of time."""
        if self.is_current:
            work.close()
            raise CalledInCallbackError(IN_CALLBACK)
        call = _Call(work)
        try:
            self.loop.call_soon_threadsafe(
                call.begin
            )  # within: whatever interrupts the caller, it does not go on alone
            return call.result(timeout)
        except (KeyboardInterrupt, concurrent.futures.TimeoutError):
            self.call_soon(call.cancel)
            raise

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Calls back on the loop; quietly nothing when the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback)

    def add(self, client: C, close: Callable[[C, float], object] | None = None) -> None:
        """A client to close at exit, unless it is gone by then; `close` where that is another end than its `close`."""
        self._clients[client] = close or type(client).close

    def discard(self, client: Closable) -> None:
        """The client is closed."""
        self._clients.pop(client, None)

    def adopt(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs the end of a client that its user dropped; a program that ends waits for it."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(begin_alone, work, self._adopted)

    def close_clients(self) -> None:
        """Closes every client that is open; each has EXIT_SECONDS, and so have all together that were dropped."""
        for client, close in list(self._clients.items()):
            with contextlib.suppress(Exception):
                close(client, EXIT_SECONDS)
        with contextlib.suppress(Exception):
            if late := self.run(self._wait_adopted(), EXIT_SECONDS + 1):
                _log.warning(
                    "%d clients that were dropped without close() did not end within %g s of the program's end: what"
                    " they had not sent is lost",
                    late,
                    EXIT_SECONDS,
                )

    async def _wait_adopted(self) -> int:
        """How many are still under way after EXIT_SECONDS."""
        if self._adopted:
            await asyncio.wait(self._adopted, timeout=EXIT_SECONDS)
        return len(self._adopted)

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if not self.alive:
            return
        self.call_soon(self.loop.stop)
        self._thread.join(EXIT_SECONDS)

    def __repr__(self) -> str:
        return f"LoopThread(pid={self.pid}, clients={len(self._clients)}, alive={self.alive})"


_starting = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """This process's loop thread."""
    global _current
    with _starting:
        if _current is None or not _current.alive:
            if short := descriptors.shortage(LOOP_FILES):  # uvloop would leave half a loop behind
                raise BootstrapError(f"no client can be made: {short}")
            if _current is None:
                atexit.register(_close_everything)
                os.register_at_fork(after_in_child=_forget)
            _current = LoopThread()
        return _current


def _forget() -> None:
    """Forgets the thread in a child process: a fork does not copy it, and its lock may have been held at the fork."""
    global _current, _starting
    forks.keep_for_ever(_current)
    _starting = threading.Lock()
    _current = None


def _close_everything() -> None:
    current = _current
    if current is None or not current.alive:
        return
    current.close_clients()
    current.stop()
