"""Lets one writer at a time write a log's small files, and none once another log has the directory's name.

A small file is written under a temporary name, which is then renamed. A flush may write one in its thread while the
event loop writes one. Both use the same temporary name, so only one may write at a time (`one`).

A flush may also be late: meanwhile the topic was deleted and made anew, and the directory of that name belongs to
another log. If the flush wrote the old topic's id there, the next start would set the new log aside as a deleted
topic's. So every operation by name is done within `step`, and after `end` no step is allowed. `end` waits for no disk:
bytes that are written and synced between two steps have only the temporary name.

Record bytes are synced through descriptors, so they need none of this. `flush.py` knows what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.threads import Threads


class SmallFileWrites:
    """The lock and the switch of one log. Used from several threads."""

    __slots__ = ("_ended", "_naming", "one")

    def __init__(self, threads: Threads) -> None:
        self.one = threads.lock()
        """Held while a file is written, synced and renamed."""
        self._naming = threads.lock()
        self._ended = False

    @contextmanager
    def step(self) -> Iterator[bool]:
        """Create, rename or remove files within this block; it yields False if that is not allowed any more."""
        with self._naming:
            yield not self._ended

    def end(self, *, wait: bool = True) -> None:
        """The log is out of use: no step begins any more. `wait`, only BEFORE the directory is renamed: return when the
        step under way has ended; its disk may hang."""
        self._ended = True
        if wait:
            with self._naming:
                return

    def __repr__(self) -> str:
        return f"SmallFileWrites({'ended' if self._ended else 'open'})"
