"""Waits of tests that run real processes, in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PAUSE_S = 0.02


def wait_until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Asks again and again until `holds()`; raises TimeoutError if it does not in time."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come to hold within {timeout_s:g} s")
        pause.wait(PAUSE_S)
