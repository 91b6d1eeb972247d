"""Follows the wall clock as long as it goes with the time since boot, and goes on without it after a jump.

The producers of a log are stamped with it, and their silence is counted by it. So a calendar that jumps for a while
stamps no live producer as one that is silent for days. It is right within one process; stamps that an earlier one has
left may be of a wrong calendar. `watched_ms` says how long this process has looked, which is what makes silence sure.
Not here: the wall clock as retention believes it (broker/jobs/wall_clock.py), which the cluster judges.
"""

from __future__ import annotations

from typing import Final

from penstock.clock import Clock

JUMP_MS_MAX: Final = 60 * 60 * 1000
"""The largest difference that is no jump: more than a time service ever corrects at once."""


class SteadyCalendar(Clock):
    """A clock whose `wall_ms` follows no jump."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms, self._began_ms = clock.wall_ms() - clock.boot_ms(), clock.now_ms()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def boot_ms(self) -> int:
        return self._clock.boot_ms()

    def wall_ms(self) -> int:
        boot_ms = self._clock.boot_ms()
        offset_ms = self._clock.wall_ms() - boot_ms
        if abs(offset_ms - self._offset_ms) <= JUMP_MS_MAX:
            self._offset_ms = offset_ms
        return boot_ms + self._offset_ms

    @property
    def watched_ms(self) -> int:
        """The time since it was made. A suspended machine does not watch."""
        return self._clock.now_ms() - self._began_ms

    def __repr__(self) -> str:
        return f"SteadyCalendar({self.watched_ms} ms)"
