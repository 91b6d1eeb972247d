"""The turns of new connections: when each is served first, so that an address makes no more than its quota (KIP-612).

A connection is never refused for a quota: it is accepted, and its first request waits for its turn. Kafka closes such a
connection after a second, and its client makes another one. Connections that wait count with all others in
max.connections.per.ip, and one that goes before its turn gives it to the next. Not here: how long each waits
(broker/quotas/), and listeners in our own hands, which ask when they accept (kafka_listener.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple, Protocol

from penstock.types import Endpoint


class AddressQuotas(Protocol):
    """The quotas of addresses."""

    @property
    def has_addresses(self) -> bool:
        """False: no address has one."""
        ...

    def connected(self, host: str, now_ms: int, /) -> int:
        """A connection has come. How long it waits for its turn (ms)."""
        ...

    def left(self, host: str, /) -> None:
        """A connection has gone before its turn."""
        ...


Turn = Callable[[], Awaitable[None]]
"""Waits for the turn of one connection."""


def turn_of(quotas: AddressQuotas, host: str, now_ms: int) -> Turn | None:
    """The turn of a connection which has just been accepted; None if it need not wait."""
    wait_ms = quotas.connected(host, now_ms) if quotas.has_addresses else 0
    if not wait_ms:
        return None

    async def wait() -> None:
        try:
            await asyncio.sleep(wait_ms / 1_000)
        except asyncio.CancelledError:  # it has gone, and has taken none
            quotas.left(host)
            raise

    return wait


class _Seen(NamedTuple):
    since_ms: int
    turn_ms: int


class PeerTurns:
    """The turns at one listener of gRPC, which accepts by itself: a connection has come when it is seen first, by its
    first request, or when all of them are looked at."""

    def __init__(self, quotas: AddressQuotas, now_ms: Callable[[], int]) -> None:
        self._quotas, self._now_ms = quotas, now_ms
        self._seen: dict[Endpoint, _Seen] = {}

    async def wait(self, peer: Endpoint) -> None:
        """Returns when it is this connection's turn."""
        if self._quotas.has_addresses:
            seen = self._seen.get(peer)
            if seen is None:
                seen = self._seen[peer] = self._new(peer)
            left_ms = seen.turn_ms - self._now_ms()
            if left_ms > 0:
                await asyncio.sleep(left_ms / 1_000)

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """These connections were open after that time. Connections from before the first quota wait for nothing."""
        before = self._seen
        self._seen = {peer: before.get(peer) or self._new(peer) for peer in connected}
        for peer, seen in before.items():
            if peer in self._seen:
                continue
            if seen.since_ms >= began_ms:  # it may have come after the look
                self._seen[peer] = seen
            elif seen.turn_ms > self._now_ms():
                self._quotas.left(peer.host)

    def _new(self, peer: Endpoint) -> _Seen:
        now_ms = self._now_ms()
        wait_ms = self._quotas.connected(peer.host, now_ms) if self._quotas.has_addresses else 0
        return _Seen(now_ms, now_ms + wait_ms)

    def __repr__(self) -> str:
        return f"PeerTurns({len(self._seen)} connections)"
