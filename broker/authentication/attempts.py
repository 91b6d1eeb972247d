"""The places for attempts to log in: few for each address, so that guessing is slow, and one for everybody.

An attempt is under way while it is computed and while its refusal is held back, so a client that guesses keeps places
taken. A connection has one of them. An address has `OF_HOST_MAX`. Above `SHARED_MAX` in all, one that has a place gets
no other; above `ALL_MAX` only those get one by which somebody has logged in before. So neither sixteen addresses that
guess, nor some thousand, hold up the others, and those that a cluster's clients have are heard whatever else goes on.

An address by which somebody has logged in before has `OF_PROVEN_MAX` places: a client that guesses beside its clients
needs as many connections to hold them up. Those above `OF_HOST_MAX` take none of anybody else's.

An address of IPv6 stands for its network of 64 bits: one machine has as many as it likes of those. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.addresses import network_of
from penstock.types import Endpoint

OF_HOST_MAX: Final = 16
OF_PROVEN_MAX: Final = 256
SHARED_MAX: Final = 256
ALL_MAX: Final = 4_096
PROVEN_MAX: Final = 4_096
"""Addresses that are remembered by a log-in; the one whose last is longest ago is forgotten first."""


class Attempts:
    """The attempts under way at one node."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._connections: set[tuple[str, Endpoint]] = set()
        self._shared = 0
        """Attempts under way that count for all addresses together."""
        self._proven: dict[str, None] = {}

    def enter(self, listener: str, peer: Endpoint) -> bool:
        """Takes a place for one more attempt by that connection; False if there is no place. `leave` gives it back."""
        if (listener, peer) in self._connections:
            return False
        network = network_of(peer.host)
        own = self._under_way.get(network, 0)
        if network in self._proven:
            if own >= OF_PROVEN_MAX:
                return False
        elif own >= OF_HOST_MAX or self._shared >= ALL_MAX or (own and self._shared >= SHARED_MAX):
            return False
        self._connections.add((listener, peer))
        self._under_way[network] += 1
        self._shared += own < OF_HOST_MAX
        return True

    def leave(self, listener: str, peer: Endpoint) -> None:
        self._connections.remove((listener, peer))
        network = network_of(peer.host)
        self._under_way[network] -= 1
        left = self._under_way[network]
        self._shared -= left < OF_HOST_MAX
        if not left:
            del self._under_way[network]

    def proved(self, host: str) -> None:
        """A user has logged in from this address."""
        network = network_of(host)
        self._proven.pop(network, None)
        self._proven[network] = None
        if len(self._proven) > PROVEN_MAX:
            del self._proven[next(iter(self._proven))]

    def is_proven(self, host: str) -> bool:
        return network_of(host) in self._proven

    def __len__(self) -> int:
        return len(self._connections)

    def __repr__(self) -> str:
        return f"Attempts({len(self)} of {len(self._under_way)} addresses)"
