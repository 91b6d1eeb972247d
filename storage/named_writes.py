"""Whether a log may write small files by their names: no more once its directory may be renamed, or be another log's.

A flush may come to its small files late, in its thread, when the topic was deleted and made anew meanwhile: the old
topic's id in the new log's directory would have the next start set that log aside as a deleted topic's. So each such
file is written by `run`, and `end` waits for the one that is under way, as `FileChanges.cancel` does. Record bytes
need none of this: they are synced through descriptors. Not here: what is written (`flush.py`, `epoch_cache.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class NamedWrites:
    """Of one log. Used from several threads."""

    __slots__ = ("_ended", "_writing")

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._ended = False

    def run(self, write: Callable[[], object]) -> None:
        """Write one file, unless the end has come. Waits for the one before."""
        with self._writing:
            if not self._ended:
                write()

    def end(self) -> None:
        """Nothing is written any more when this returns."""
        with self._writing:
            self._ended = True

    def __repr__(self) -> str:
        return f"NamedWrites({'ended' if self._ended else 'open'})"
