"""The event loop of one simulated process: what asyncio asks of a loop, in the time of its machine.

Handles run in the order in which they were scheduled, one a step of the process. Not here: sockets, signals and child
processes, which raise; and which process is next (scheduler.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any

from tests.simulation.cluster.scheduler import Process, Scheduler

WALL_MS = 1_700_000_000_000
CALENDAR_OFF_MS_MAX = 3_000_000
"""Limit for the error of a machine's calendar: below `message.timestamp.after.max.ms`, by which brokers refuse the
records of others."""


class MachineTime:
    """The times of one machine: they run a little fast or slow, and its calendar may be wrong. A `Clock` too."""

    def __init__(self, scheduler: Scheduler, rate: float = 1.0) -> None:
        self._scheduler, self._rate = scheduler, rate
        self._wall_offset_ms = WALL_MS
        self._suspended_ms = 0

    def now_s(self) -> float:
        return self._scheduler.now_s * self._rate

    def true_s(self, own_s: float) -> float:
        """When it is so late here."""
        return own_s / self._rate

    def now_ms(self) -> int:
        return int(self._scheduler.now_s * self._rate * 1000 + 1e-6)

    def now_ns(self) -> int:
        return int(self._scheduler.now_s * self._rate * 1_000_000) * 1000

    def wall_ms(self) -> int:
        return self._wall_offset_ms + self.now_ms()

    def jump_ms(self, by_ms: int) -> None:
        """The calendar is set forward, or back if that is negative."""
        off_ms = self._wall_offset_ms + by_ms - WALL_MS
        self._wall_offset_ms = WALL_MS + max(-CALENDAR_OFF_MS_MAX, min(off_ms, CALENDAR_OFF_MS_MAX))

    def set_calendar(self, off_ms: int) -> None:
        """The calendar is off by so much from now on, be it years."""
        self._wall_offset_ms = WALL_MS + off_ms

    def boot_ms(self) -> int:
        return self.now_ms() + self._suspended_ms


class _Handle(asyncio.Handle):
    """asyncio's, made in a third of the time: there are several for each message, and none is debugged."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., Any], args: Sequence[Any], loop: ProcessLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled, self._repr, self._source_traceback = False, None, None

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, None, None


class _Timer(asyncio.TimerHandle):
    """The same of a timer. One that is cancelled stays where it is until it is due."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., Any], args: Sequence[Any], loop: ProcessLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self._when, self._scheduled = when, True

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, None, None

    def due(self) -> None:
        if not self._cancelled:
            self._loop.add(self)


class ProcessLoop(asyncio.AbstractEventLoop):
    """One per process; `failed` is told of every error that nobody has caught."""

    def __init__(
        self, process: Process, time: MachineTime, failed: Callable[[str, BaseException | None], None]
    ) -> None:
        self._process, self._time, self._failed = process, time, failed
        self._scheduler, self._handles = process.scheduler, process.handles
        process.loop = self

    def time(self) -> float:
        return self._time.now_s()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._handles.append(handle)
        if not self._process.is_noted:
            self._scheduler.note(self._process)
        return handle

    call_soon_threadsafe = call_soon

    def add(self, handle: asyncio.Handle) -> None:
        self._handles.append(handle)
        if not self._process.is_noted:
            self._scheduler.note(self._process)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        self._scheduler.at(self._time.true_s(when), self._process, timer.due)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        if executor is None:
            raise RuntimeError("no executor was given, and the loop has none")
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._process.is_alive:
            self._failed(str(context.get("message")), context.get("exception"))

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """A task from outside of the loop's own fiber."""
        return self.create_task(work, name=name)

    def close(self) -> None: ...

    def __repr__(self) -> str:
        return f"ProcessLoop({self._process.name})"
