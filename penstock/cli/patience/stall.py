"""Decides when a command tells what it waits for: after PATIENCE_MS without progress, and again when it goes on.

Pure but for what it is given: `reason` finds out, `say` prints. watch.py looks every half second, in a thread of its
own, because the thread of the command waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PATIENCE_MS = 3_000
"""An election is over by then, so what takes longer has a cause that a person may want to know."""


@dataclass(frozen=True, slots=True)
class Standing:
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
        self._told = ""

    def look(self, standing: Standing, now_ms: int) -> None:
        """Tells what the command waits for, once for each reason, and when it goes on after that."""
        if not standing.is_waiting or standing.progress != self._progress or self._since_ms is None:
            self._moves(standing, now_ms)
        elif now_ms - max(self._since_ms, self._asked_ms) >= PATIENCE_MS:
            self._asked_ms = now_ms
            reason = self._reason()
            if reason and reason != self._told:
                self._told = reason
                self._say(f"waiting for {(now_ms - self._since_ms) / 1000:.0f} s: {reason}")

    def _moves(self, standing: Standing, now_ms: int) -> None:
        if self._told and self._since_ms is not None:
            self._say(f"going on after {(now_ms - self._since_ms) / 1000:.0f} s")
        self._told = ""
        self._progress = standing.progress
        self._since_ms = now_ms if standing.is_waiting else None
