"""Keeps the small files of one log apart from each other's writers, and from the next log of the same name.

Such a file is written to a temporary one, which is then renamed. A flush may do so in its thread while the event loop
does: both use one temporary name, so one writes at a time (`one`). And a flush may be late: the topic was deleted and
made anew meanwhile, and the directory of that name is another log's. The old topic's id in it would have the next start
set that log aside as a deleted topic's. So every step that goes by a name is taken within `step`, and `end` says that
none is taken any more. It waits for no disk: what is written and synced between two steps has no name that counts.

Record bytes need none of this: they are synced through descriptors. Not here: what is written (`flush.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.threads import Threads


class NamedWrites:
    """Of one log. Used from several threads."""

    __slots__ = ("_ended", "_naming", "one")

    def __init__(self, threads: Threads) -> None:
        self.one = threads.lock()
        """Held while a file is written, synced and renamed."""
        self._naming = threads.lock()
        self._ended = False

    @contextmanager
    def step(self) -> Iterator[bool]:
        """Create, rename or remove a file within it; False: that must not be any more."""
        with self._naming:
            yield not self._ended

    def end(self, *, wait: bool = True) -> None:
        """The log is out of use: no step begins any more. `wait` for the one that is under way, BEFORE the directory is
        renamed; its disk may hang."""
        self._ended = True
        if wait:
            with self._naming:
                return

    def __repr__(self) -> str:
        return f"NamedWrites({'ended' if self._ended else 'open'})"
