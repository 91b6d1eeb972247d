"""Clients that their user dropped without `close`: what they took is still sent, and their connections go.

Nothing that works for a client holds the client itself, so it is collected as soon as its user has it no more. Then its
core is closed on its loop: a producer's records are sent first, each within `delivery_timeout_ms`. Where records were
still on their way, a ResourceWarning names the client and their number. A program that ends waits for that a bounded
time (background.py). Not here: clients that live at the end of the program, which background.py closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from penstock.client import forks


class Home(Protocol):
    """The event loop on which a client works."""

    @property
    def alive(self) -> bool: ...

    def adopt(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs the work, from any thread; nobody waits for it."""
        ...


class Forgettable(Protocol):
    """The part of a client that is left without its face."""

    @property
    def closed(self) -> bool: ...

    def unacked_records(self) -> int:
        """About how many records were taken and not acked; from any thread."""
        ...

    async def close_forgotten(self) -> None:
        """Sends what was taken, and ends all traffic."""
        ...


class OnLoop:
    """The loop of an async client, which is its user's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def alive(self) -> bool:
        return self._loop.is_running()

    def adopt(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            self._loop.call_soon_threadsafe(begin_alone, work, self._tasks)


def begin_alone(work: Callable[[], Coroutine[Any, Any, object]], tasks: set[asyncio.Task[object]]) -> None:
    """Starts work on the running loop for which nobody waits; `tasks` holds it as long as it lasts."""
    task = asyncio.ensure_future(work())
    tasks.add(task)
    task.add_done_callback(tasks.discard)


ARE_SENT = "they are being sent"


def close_when_forgotten(client: object, name: str, core: Forgettable, home: Home, fate: str = ARE_SENT) -> None:
    """Closes the core once nobody has the client any more. `fate` is the fate of records that are not acked
    by then."""
    weakref.finalize(client, _close, name, core, home, forks.generation(), fate).atexit = False


def _close(name: str, core: Forgettable, home: Home, made_in: int, fate: str) -> None:
    """Called by whichever thread dropped the client last, or collects garbage: it must not wait."""
    if core.closed or made_in != forks.generation():
        return
    unacked = core.unacked_records()
    is_alive = home.alive
    if is_alive:
        home.adopt(core.close_forgotten)
    if unacked:
        fate = fate if is_alive else "they are lost, because its event loop has ended"
        warnings.warn(
            f"{name} was dropped without close(), and {unacked} of its records were not acked yet: {fate}. Close it, or"
            " use it in a with statement",
            ResourceWarning,
            stacklevel=2,
        )
