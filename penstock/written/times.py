"""Times as people write them, in options of commands, in pages and in files, as ms since 1970. Pure: "now" is given.

Not here: clocks (clock.py), and what is said of a text that is no time, which names the option or the field.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from penstock.written.numbers import INT64_MAX, parse_number

MOMENT_FORMS: Final = "ms since 1970, a time like 2026-01-31T12:00:00Z, or a time before now like -90s, -5m, -2h, -1d"
UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
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
    number = parse_number(text, INT64_MAX)
    if number is not None:
        return number
    if text.isascii() and text.isdigit():
        return None  # larger than any time: no date either, as 20260131 would be
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None
