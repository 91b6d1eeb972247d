"""Virtual time for several processes in one thread: which of them does its next step is the seed's decision.

A *process* has an event loop of its own and *fibers* (greenlets): one that runs the loop, and one for each of its
threads. A fiber runs until it waits: for a lock, for a file, for time. So a thread that waits for a disk holds up
nothing else, and a loop that waits for a lock holds up its process and no other, as with real threads. Time stands
still while a step runs, takes a few drawn microseconds after each, and jumps when nobody has anything to do.

A process that is killed is left where it stands: no step of it runs any more, no `finally` either. Not here: what a
process may wait for (fibers.py), and its event loop (loop.py).
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

import greenlet

STEP_SECONDS_MAX = 40e-6
"""Limit for the time that a step takes of its process, and so of everybody."""
BEGIN_S = 1_000.0


def swap_task(loop: asyncio.AbstractEventLoop, task: asyncio.Task[object] | None) -> asyncio.Task[object] | None:
    """Makes this the task that runs, and returns the one before. Until Python 3.13 each loop has its own, and nothing
    has to be done; from 3.14 on the thread has one, and the loops of all processes are in one thread."""
    if sys.version_info < (3, 14):
        return task
    before: asyncio.Task[object] | None = asyncio.tasks._swap_current_task(loop, task)
    return before


class Stuck(AssertionError):
    """No process has anything to do, now or later."""


class Fiber:
    """One thread of a process."""

    __slots__ = ("is_main", "name", "number", "process", "run")

    def __init__(self, process: Process, name: str, work: Callable[[], object], *, is_main: bool = False) -> None:
        self.process, self.name, self.is_main = process, name, is_main
        self.number = next(process.numbers)
        self.run = greenlet.greenlet(work, parent=process.scheduler.hub)


class Process:
    """A program that runs: its loop's handles, and its fibers that can go on."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler, self.name = scheduler, name
        self.digest_name = name.encode()
        """Stands for a step of it in the digest of a story."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_alive, self.is_paused = True, False
        self.is_noted = False
        """Among those of which the scheduler thinks that they may have something to do."""
        self.numbers = count(1)
        self.handles: deque[asyncio.Handle] = deque()
        self.resumable: deque[Fiber] = deque()
        self.fibers: dict[int, Fiber] = {}
        """Every fiber that has begun: a process that was killed keeps them, so that none of them ends."""
        self.current: Fiber | None = None
        self._task: asyncio.Task[object] | None = None
        """The task in whose middle the loop's fiber waits, while another process has the thread."""
        self._main = Fiber(self, "MainThread", self._serve, is_main=True)
        self.is_serving = False
        """The loop's fiber is in the middle of a handle, and waits."""

    def step(self) -> None:
        """Runs one handle of the loop, or one fiber that can go on, to where it waits."""
        fiber = self._main
        if self.resumable and (not self.handles or self.is_serving or self.scheduler.draw.random() >= 0.5):
            fiber = self.resumable.popleft()
        else:
            self.is_serving = True
        loop = self.loop if fiber.is_main else None
        self.scheduler.enter(loop)
        self.current = fiber
        if loop is not None:
            self._task = swap_task(loop, self._task)
        try:
            fiber.run.switch()
        finally:
            self.current = None
            if loop is not None:
                self._task = swap_task(loop, self._task)
        if not fiber.is_main and fiber.run.dead:
            self.fibers.pop(fiber.number, None)

    def _serve(self) -> None:
        """The loop's fiber."""
        handles, next_step = self.handles, self.scheduler.hub.switch
        while True:
            handle = handles.popleft()
            if not handle._cancelled:  # type: ignore[attr-defined]
                handle._run()
            self.is_serving = False
            next_step()

    def begin(self, name: str, work: Callable[[], object]) -> Fiber:
        """A thread that begins at one of the next steps."""
        fiber = Fiber(self, name, work)
        self.fibers[fiber.number] = fiber
        self.resume(fiber)
        return fiber

    def resume(self, fiber: Fiber) -> None:
        """The fiber waits no longer."""
        self.resumable.append(fiber)
        if not self.is_noted:
            self.scheduler.note(self)

    def park(self) -> None:
        """Lets the fiber that runs wait until somebody resumes it."""
        self.scheduler.hub.switch()

    def sleep(self, seconds: float) -> None:
        """Lets the fiber that runs wait so long. Where none runs, before the start and after the end, nothing waits."""
        fiber = self.current
        if fiber is not None:
            self.scheduler.at(self.scheduler.now_s + seconds, self, lambda: self.resume(fiber))
            self.park()

    def kill(self) -> None:
        """Nothing of it runs any more."""
        self.is_alive = False

    def pause(self) -> None:
        self.is_paused = True

    def go_on(self) -> None:
        self.is_paused = False
        self.scheduler.note(self)

    def __repr__(self) -> str:
        return f"Process({self.name})"


class Scheduler:
    """The processes and their time. `hub` is the greenlet that made it: only there may `run` be called."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.hub = greenlet.getcurrent()
        self.now_s = BEGIN_S
        self.steps = 0
        self.after_step: Callable[[Process], object] = lambda process: None
        self.running: Process | None = None
        self._order = count()
        self._timers: list[tuple[float, int, Process, Callable[[], object]]] = []
        self._ready: list[Process] = []
        """Processes that may have something to do; those that have not are taken out when they are met."""
        self._entered: asyncio.AbstractEventLoop | None = None

    def process(self, name: str) -> Process:
        return Process(self, name)

    def note(self, process: Process) -> None:
        """The process may have something to do."""
        if not process.is_noted:
            process.is_noted = True
            self._ready.append(process)

    def at(self, when_s: float, process: Process, work: Callable[[], object]) -> None:
        """Does `work` then, unless the process is dead by then; `work` belongs to no fiber and must not wait."""
        heappush(self._timers, (when_s, next(self._order), process, work))

    def run(self, reached: Sequence[object]) -> None:
        """Runs steps until something is in `reached`, which is looked at after each; raises Stuck when there is none
        left."""
        timers, ready, random = self._timers, self._ready, self.draw.random
        try:
            while not reached:
                while timers and timers[0][0] <= self.now_s:
                    _, _, process, work = heappop(timers)
                    if process.is_alive:
                        work()
                picked = self._pick() if ready else None
                if picked is not None:
                    self.steps += 1
                    self.running = picked
                    picked.step()
                    self.running = None
                    self.now_s += random() * STEP_SECONDS_MAX
                    self.after_step(picked)
                elif timers:
                    self.now_s = max(self.now_s, timers[0][0])
                else:
                    raise Stuck("no process has anything to do, now or later")
        finally:
            self.enter(None)

    def enter(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """The loop that runs in what comes next. Between two steps nobody asks for it, so it stays: asyncio makes a
        system call of each change."""
        if loop is not self._entered:
            self._entered = loop
            asyncio._set_running_loop(loop)

    def _pick(self) -> Process | None:
        ready = self._ready
        while ready:
            place = int(self.draw.random() * len(ready))
            process = ready[place]
            has_work = process.resumable or (process.handles and not process.is_serving)
            if has_work and process.is_alive and not process.is_paused:
                return process
            process.is_noted = False
            ready[place] = ready[-1]
            ready.pop()
        return None

    def __repr__(self) -> str:
        return f"Scheduler({self.now_s - BEGIN_S:.3f} s, {self.steps} steps)"
