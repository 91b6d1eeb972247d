"""Decides when a command tells what it waits for: after PATIENCE_MS without progress, and again when it goes on.

No clock of its own: `reason` finds out, `say` prints, the time is given. watch.py looks every half second, in a thread
of its own, because the thread of the command waits; the command's thread tells the end, since a command that ends
before the next look has gone on, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.lazy_dataclass import dataclass

PATIENCE_MS = 3_000
"""An election is over by then, so what takes longer has a cause that a person may want to know."""


@dataclass(frozen=True, slots=True)
class WaitProgress:
    """How a command stands: whether it waits for the cluster at all, and any number that rises with its progress."""

    is_waiting: bool
    progress: int = 0


class Stall:
    """One command's waits, one after the other."""

    def __init__(self, reason: Callable[[], str], say: Callable[[str], None]) -> None:
        self._reason = reason
        self._say = say
        self._progress = 0
        self._since_ms: int | None = None
        self._asked_ms = 0
        self._said = ""
        self._is_over = False
        self._lock = threading.Lock()
        """Guards the lines that are printed: one thread looks, another ends."""

    def look(self, now: WaitProgress, now_ms: int) -> None:
        """Tells what the command waits for, once for each reason, and when it goes on after that."""
        if not now.is_waiting or now.progress != self._progress or self._since_ms is None:
            self._go_on(now_ms)
            self._progress = now.progress
            self._since_ms = now_ms if now.is_waiting else None
        elif now_ms - max(self._since_ms, self._asked_ms) >= PATIENCE_MS:
            self._asked_ms = now_ms
            self._note(self._reason(), now_ms - self._since_ms)

    def end(self, now_ms: int) -> None:
        """Ends the watch: the work is done. If a person was told of a wait, says that it is over, and nothing more."""
        self._go_on(now_ms, is_over=True)

    def _note(self, reason: str, waited_ms: int) -> None:
        with self._lock:
            if reason and reason != self._said and not self._is_over:
                self._said = reason
                self._say(f"waiting for {waited_ms / 1000:.0f} s: {reason}")

    def _go_on(self, now_ms: int, is_over: bool = False) -> None:
        with self._lock:
            if self._said and self._since_ms is not None and not self._is_over:
                self._say(f"going on after {(now_ms - self._since_ms) / 1000:.0f} s")
            self._said = ""
            self._is_over = self._is_over or is_over
