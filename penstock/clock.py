"""Time, injected: every part that needs the time gets a Clock, so that tests decide what time it is.

Two times exist. `now_ms` is monotonic and drives time-outs, leases and lags; `wall_ms` is the calendar and goes into
record timestamps and retention only. `boot_ms` is what the calendar is checked against. A core never holds a clock: it
is given `now_ms` by its driver.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Final, Protocol


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


# -- times as people write them ----------------------------------------------------------------------------------------

MOMENT_FORMS: Final = "ms since 1970, a time like 2026-01-31T12:00:00Z, or a time before now like -90s, -5m, -2h, -1d"
UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS_MAX: Final = 19
_INT64_MAX: Final = 2**63 - 1
_BEFORE: Final = re.compile(r"-([0-9]{1,9})([smhd])")


def moment_ms(text: str, now_ms: int) -> int | None:
    """A time, or a time before now, as ms since 1970; None for any other text."""
    before = _BEFORE.fullmatch(text)
    if before is not None:
        return max(0, now_ms - int(before[1]) * UNITS_MS[before[2]])
    return time_ms(text)


def time_ms(text: str) -> int | None:
    """A time as ms since 1970; local time unless it has a zone. A date before 1970 is 0: every record is later, and a
    negative time has another meaning on the wire (-1 is the end of the log)."""
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0") or "0"
        return int(digits) if len(digits) <= _DIGITS_MAX and int(digits) <= _INT64_MAX else None
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None
