"""Decides whether the wall clock can be trusted, so that a clock that jumps to 2106 does not make all data old.

The wall clock should advance as the time since boot does. It is trusted as long as the two differ by less than an
hour from one look to the next; a slow correction is followed. After a larger jump, in either direction, nothing is
deleted by age until the clock is right again, or until a person has checked the clock and started the node again. A
suspended machine is no jump: the time since boot includes it.
"""

from __future__ import annotations

import logging

from penstock.clock import Clock

_log = logging.getLogger(__name__)

JUMP_MS_MAX = 60 * 60 * 1000
"""More than a time service ever corrects at once, less than any retention that a person sets."""


class WallClockGuard:
    """One per broker, for all jobs that delete by age."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.wall_ms() - clock.boot_ms()
        self.jumps = 0
        self.is_believed = True

    def believed_wall_ms(self) -> int | None:
        """The wall time, or None while nothing may be deleted by it."""
        wall_ms = self._clock.wall_ms()
        jump_ms = wall_ms - self._clock.boot_ms() - self._offset_ms
        if abs(jump_ms) <= JUMP_MS_MAX:
            if not self.is_believed:
                _log.warning("the clock is right again: records are deleted by age again")
            self.is_believed = True
            self._offset_ms += jump_ms
            return wall_ms
        self.jumps += self.is_believed
        self.is_believed = False
        _log.error(
            "the clock has jumped by %d s, to %d: nothing is deleted by age until the clock is right again, or this "
            "node is started again. Check the machine's time",
            jump_ms // 1000,
            wall_ms,
        )
        return None

    def __repr__(self) -> str:
        return f"WallClockGuard({'believed' if self.is_believed else 'not believed'}, {self.jumps} jumps)"
