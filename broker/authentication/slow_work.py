"""Computes in a thread what takes milliseconds of it, one after the other, and the addresses take turns.

The first in a thread's queue would be the address that asks most. So an address waits behind one computation of each
other, and an address by which somebody has logged in before behind those of its kind only, but for every other turn.
How many may wait is bounded by the attempts that there may be (attempts.py). On the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class _Queue:
    """Work that waits, by address; the address whose turn it is comes first."""

    def __init__(self) -> None:
        self._of: dict[str, deque[asyncio.Future[None]]] = {}

    def add(self, address: str, turn: asyncio.Future[None]) -> None:
        self._of.setdefault(address, deque()).append(turn)

    def next(self) -> asyncio.Future[None] | None:
        """The waiter whose turn it is, out of the queue; those that were given up are passed over."""
        while self._of:
            address = next(iter(self._of))
            waiting = self._of.pop(address)
            turn = waiting.popleft()
            if waiting:
                self._of[address] = waiting
            if not turn.done():
                return turn
        return None


class SlowWork:
    """The slow work of log-ins. There is one per node."""

    def __init__(self, executor: Executor) -> None:
        """`executor` belongs to the caller until `close`."""
        self._executor = executor
        self._proven, self._others = _Queue(), _Queue()
        self._is_running = self._was_proven = False

    async def run(self, address: str, is_proven: bool, work: Callable[[], T]) -> T:
        """The result of the work, when its turn has come."""
        if self._is_running:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._proven if is_proven else self._others).add(address, turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came in the same moment
                    self._pass_on()
                raise
        self._is_running = True
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        first, second = (self._others, self._proven) if self._was_proven else (self._proven, self._others)
        turn = first.next()
        self._was_proven = (turn is not None) != self._was_proven
        if turn is None:
            turn = second.next()
        self._is_running = turn is not None
        if turn is not None:
            turn.set_result(None)

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    def __repr__(self) -> str:
        return f"SlowWork({'one runs' if self._is_running else 'idle'})"
