"""An event loop whose time jumps: when every task waits for a timer, the clock moves on to the earliest one.

A test of ten seconds of quorum life takes milliseconds and gives the same result every time. Only for code whose
blocking calls run inline (`InlineExecutor`) and that opens no sockets.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer brings: a deadlock")
        events = super().select(0)
        if not events and timeout > 0:
            self.now_s += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Also a `Clock`: all its times are the loop's own."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def now_ms(self) -> int:
        return int(self._jumping.now_s * 1000 + 1e-6)

    def now_ns(self) -> int:
        return int(self._jumping.now_s * 1_000_000) * 1000

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms()

    def boot_ms(self) -> int:
        return self.now_ms()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a fresh loop of virtual time, and close everything."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def virtual_clock() -> VirtualTimeLoop:
    """The clock of the running virtual loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise RuntimeError("not inside run_virtual")
    return loop
