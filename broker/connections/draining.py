"""Decides since when a client reads its answers too slowly. Pure: it is told at each look what has left and what waits.

An answer has to leave at the pace by which it is gone in ANSWER_MS_MAX, and at BYTES_PER_MS_MIN however small it is, as
a request has to come (kafka/connection/incoming_frame.py). What a client does not read at that pace it owes; what it
reads faster it may not save up for later. So a client that takes a byte now and then stands still like one that takes
none, and one that had a pause and catches up does not.

Not here: how long a client may owe something (connections.max.write.stall.ms), and whose bytes these are.
"""

from __future__ import annotations

from typing import Final

BYTES_PER_MS_MIN: Final = 1
ANSWER_MS_MAX: Final = 60_000
"""17 kB a second for 1 MiB, and 0.9 MB for 50 MiB, the most that a fetch asks for by default."""


class Draining:
    """The answers of one connection, as they were at the last look."""

    __slots__ = ("_at_ms", "_left", "_owed", "_since_ms")

    def __init__(self) -> None:
        self._since_ms: int | None = None
        """The time since when the client owes something; at a first look, the time of that look."""
        self._at_ms = self._left = 0
        self._owed = 0.0

    def look(self, left: int, waiting: int, size: int, now_ms: int) -> int | None:
        """The time since when the client has been too slow, as far as the looks can tell; None if nothing waits.
        `left`: all bytes that have left so far; `waiting`: those that have not; `size`: the answer that is under
        way."""
        if not waiting:
            self._since_ms = None
            return None
        if self._since_ms is None:
            self._since_ms, self._owed = now_ms, 0.0
        else:
            self._owed += (now_ms - self._at_ms) * max(BYTES_PER_MS_MIN, size / ANSWER_MS_MAX) - (left - self._left)
            if self._owed <= 0:
                self._since_ms, self._owed = now_ms, 0.0
        self._at_ms, self._left = now_ms, left
        return self._since_ms

    def __repr__(self) -> str:
        return f"Draining({self._owed:.0f} bytes owed)"
