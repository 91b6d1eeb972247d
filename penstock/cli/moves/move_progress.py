"""How far replicas that move are, in bytes and in time, for the commands that show it or wait for it.

The time left is what is left by the pace of the last seconds. Not here: waiting (waiting.py), and what
moves (the controller).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.admin.log_dirs import ReassignmentProgress
    from penstock.types import TopicPartition

SAY_SECONDS = 5.0
"""How often a command that waits says how far the copies are."""
PACE_SAMPLES = 20
"""The number of looks that the pace is measured over."""


def left_bytes(moves: Mapping[TopicPartition, ReassignmentProgress]) -> int:
    """The bytes that all known copies lack."""
    return sum(left for move in moves.values() for left in move.left.values() if left is not None)


class CopyPace:
    """How fast what is left becomes less; the time is any clock's, in seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=PACE_SAMPLES)

    def saw(self, left: int, at_seconds: float) -> None:
        """Notes the bytes left. When more are left than before, another move has begun: the pace begins anew."""
        if self._seen and left > self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((at_seconds, left))

    @property
    def bytes_per_second(self) -> float | None:
        """The pace of the copies; None before the second look, and where nothing was copied between."""
        if len(self._seen) < 2 or self._seen[0][1] == self._seen[-1][1]:
            return None
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (before - after) / max(ended - began, 1e-9)

    def text(self) -> str:
        """The bytes left, the pace and the time left, for a person."""
        left, pace = self._seen[-1][1], self.bytes_per_second
        if pace is None or not left:  # what is left then is no copy: it waits for the controller or for the ISR
            return f"{mebibytes(left)} to copy"
        return f"{mebibytes(left)} to copy, {mebibytes(pace)}/s: about {_duration(left / pace)} left"


def mebibytes(size: float) -> str:
    """Bytes for a person."""
    return f"{size / (1 << 20):,.1f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
