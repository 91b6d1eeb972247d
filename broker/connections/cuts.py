"""Cuts connections of a listener, many at one look at the descriptors. An edge.

A look goes through all descriptors of the process. A flood of a listener asks for many cuts, so those that come while a
look is under way share the next one. Not here: which connections are cut (connection_guard.py,
broker/grpc/refused_calls.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from penstock.types import Endpoint


class Cuts:
    """The cuts of one listener."""

    def __init__(self, cut: Callable[[Collection[Endpoint]], Awaitable[object]]) -> None:
        """`cut` shuts these connections down."""
        self._cut = cut
        self._wanted: set[Endpoint] = set()
        self._one_at_a_time = asyncio.Lock()

    async def cut(self, peer: Endpoint) -> None:
        """Returns when the connection with that far end is shut down."""
        self._wanted.add(peer)
        async with self._one_at_a_time:
            if peer in self._wanted:  # else it was cut together with another one
                wanted, self._wanted = self._wanted, set()
                await self._cut(wanted)

    def __repr__(self) -> str:
        return f"Cuts({len(self._wanted)} wanted)"
