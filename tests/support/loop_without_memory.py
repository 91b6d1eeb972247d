"""An event loop that has no memory for what threads hand over to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopWithoutMemory:
    """An event loop that has no memory for the first calls: before it took them, and after."""

    def __init__(self, loop: asyncio.AbstractEventLoop, refused_before: int, refused_after: int) -> None:
        self._loop = loop
        self._before, self._after = refused_before, refused_after

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> None:
        if self._before > 0:
            self._before -= 1
            raise MemoryError
        self._loop.call_soon_threadsafe(callback, *args)
        if self._after > 0:
            self._after -= 1
            raise MemoryError
