"""Tells the lifecycle that a replica is lost, or a log dir has failed; the lifecycle then leaves ISRs.

Made before both sides: the parts that lose replicas are made first, and the lifecycle, which calls some of them, last.
It counts nothing: one new registration covers every loss before it. `broker_lifecycle.py` registers.
"""

from __future__ import annotations

import asyncio
import contextlib


class ReplicaLosses:
    """Passes losses of replicas on to the lifecycle. There is one per broker, on the event loop."""

    def __init__(self) -> None:
        self.is_open = False
        """A replica is lost, and this broker has not begun to register as a new process since."""
        self._news = asyncio.Event()

    def post(self) -> None:
        """A replica here is lost: leave every ISR, and join those again whose partitions are still good here."""
        self.is_open = True
        self._news.set()

    def settle(self) -> None:
        """Called BEFORE a registration as a new process names the replicas of this broker: it leaves the lost ones
        out."""
        self.is_open = False

    def log_dir_failed(self) -> None:
        """The next heartbeat says so; it goes out at once."""
        self._news.set()

    def hasten(self) -> None:
        """The next heartbeat goes out at once, for another reason."""
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Returns when a replica is lost, after `hasten`, or when the seconds are over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    def __repr__(self) -> str:
        return f"ReplicaLosses({'a replica is lost' if self.is_open else 'none'})"
