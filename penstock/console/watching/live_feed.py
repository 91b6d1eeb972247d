"""Tells those who wait that something has changed: one number that grows, however many wait.

Nobody is sent anything twice, and nothing queues up: who is slow is told of the newest state alone. The number of
waiting browsers is limited. Not here: what is sent to a browser (live.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.errors import PenstockError

WAITING_MAX: Final = 200
WAITING_OF_ONE_MAX: Final = 50
"""Streams of one user, or of one network where nobody logs in: a tab has one or two."""


class TooManyStreamsError(PenstockError):
    """Too many browsers, or tabs of one, have a stream open."""


class LiveFeed:
    """The version of what the console knows; it belongs to one event loop."""

    def __init__(self, waiting_max: int = WAITING_MAX, waiting_of_one_max: int = WAITING_OF_ONE_MAX) -> None:
        self._waiting_max, self._waiting_of_one_max = waiting_max, waiting_of_one_max
        self._version = 0
        self._changed = asyncio.Event()
        self._open: Counter[str] = Counter()

    @property
    def version(self) -> int:
        return self._version

    @property
    def open_streams(self) -> int:
        return self._open.total()

    def note(self) -> None:
        """Something has changed."""
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_newer(self, version: int, seconds: float) -> int:
        """The version once it is newer than the given one, or the same after so many seconds."""
        if self._version <= version:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._version

    def check(self, key: str) -> None:
        """TooManyStreamsError where one more would be too many."""
        if self._open.total() >= self._waiting_max or self._open[key] >= self._waiting_of_one_max:
            raise TooManyStreamsError("too many pages of this console are open; close some, or reload this one later")

    @contextmanager
    def stream(self, key: str) -> Iterator[None]:
        """One open stream of a user or a network; TooManyStreamsError where there are too many."""
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def __repr__(self) -> str:
        return f"LiveFeed(version {self._version}, {self.open_streams} streams)"
