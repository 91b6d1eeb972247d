"""Lets few calls of one connection be read at once, because gRPC takes a message in whole.

A call that is not read holds 64 KiB, HTTP/2's window. A call that is read may hold `socket.request.max.bytes`, also
where its API allows less: nothing tells the size before the last byte. A connection has 100 calls, so all of them at
once would take 100 times as much. The messages of honest calls come with their calls, and are read in a moment.

Not here: which callers may be read from at all (callers.py), and streams, which `max.connections` bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.types import Endpoint

T = TypeVar("T")

READS_MAX: Final = 4


class ReadTurns:
    """The turns of the calls of one server."""

    def __init__(self) -> None:
        self._of: dict[Endpoint, _Connection] = {}
        """The connections that have a call which is read, or waits to be."""

    async def read(self, peer: Endpoint, read: Callable[[], Awaitable[T]]) -> T:
        """Calls `read` when it is this call's turn, and returns its answer."""
        connection = self._of.get(peer)
        if connection is None:
            connection = self._of[peer] = _Connection()
        connection.calls += 1
        try:
            async with connection.turns:
                return await read()
        finally:
            connection.calls -= 1
            if not connection.calls:
                del self._of[peer]

    def __repr__(self) -> str:
        return f"ReadTurns({len(self._of)} connections)"


class _Connection:
    """The calls of one connection that have still to be read."""

    __slots__ = ("calls", "turns")

    def __init__(self) -> None:
        self.calls, self.turns = 0, asyncio.Semaphore(READS_MAX)
