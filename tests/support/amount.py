"""How much of a long test the suite runs: a part each time, the whole where PENSTOCK_LONG_TESTS=1 asks for it."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
IS_LONG = bool(os.environ.get("PENSTOCK_LONG_TESTS"))


def usually(part: T, *, long: T) -> T:
    """The one that this run has time for."""
    return long if IS_LONG else part
