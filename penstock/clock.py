"""Time, injected: every part that needs the time gets a Clock, so that tests decide what time it is.

Two times exist. `now_ms` is monotonic and drives time-outs, leases and lags; `wall_ms` is the calendar and goes into
record timestamps and retention only. `boot_ms` is what the calendar is checked against. A core never holds a clock: it
is given `now_ms` by its driver.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The times a part may ask for. Safe to call from any thread."""

    def now_ms(self) -> int:
        """Monotonic milliseconds; only differences mean anything."""
        ...

    def now_ns(self) -> int:
        """The time of `now_ms` in nanoseconds; for what is measured, not for what is waited for."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump either way."""
        ...

    def boot_ms(self) -> int:
        """Monotonic like `now_ms`, but it goes on while the machine is suspended."""
        ...


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has it; where it is missing, a suspend looks like a jump of the calendar."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    now_ns = staticmethod(time.monotonic_ns)
    """Itself, not a method around it: several times for each request."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


class ManualClock:
    """A clock that stands still until `advance` moves it; for tests and simulation."""

    def __init__(self, now_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._suspended_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def now_ns(self) -> int:
        return self._now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self._wall_ms

    def boot_ms(self) -> int:
        return self._now_ms + self._suspended_ms

    def advance(self, ms: int) -> None:
        """All times move on by `ms`."""
        self._now_ms += ms
        self._wall_ms += ms

    def jump_wall(self, ms: int) -> None:
        """Moves the calendar alone, as when somebody sets the clock."""
        self._wall_ms += ms

    def suspend(self, ms: int) -> None:
        """The machine slept for `ms`."""
        self._suspended_ms += ms
        self._wall_ms += ms
