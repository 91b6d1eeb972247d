"""Work that found no room, no descriptor or no thread: it is tried again after a pause, for as long as it takes.

What is asked for meanwhile is part of the next try, so the caller looks here first. Used on the event loop. Not here:
the work, and which errors are a lack of room (`disk_errors.is_shortage`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Postponed(Generic[K]):
    """The work that is postponed, by what it is for."""

    def __init__(self, pause_ms: int, try_again: Callable[[K], None]) -> None:
        self._pause_s, self._try_again = pause_ms / 1000, try_again
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._short_of_room: set[K] = set()
        self.count = 0
        """How often something was put off."""

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def put_off(self, key: K) -> bool:
        """Puts the work off until after the pause. True if this is the first time since the work found room."""
        self.count += 1
        is_first = key not in self._short_of_room
        self._short_of_room.add(key)
        self._timers[key] = asyncio.get_running_loop().call_later(self._pause_s, self._due, key)
        return is_first

    def has_room(self, key: K) -> None:
        """The work was done."""
        self._short_of_room.discard(key)

    def drop(self, key: K) -> None:
        """Drops work that nobody needs any more."""
        self._short_of_room.discard(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: K) -> None:
        del self._timers[key]
        self._try_again(key)

    def __repr__(self) -> str:
        return f"Postponed({len(self)})"
