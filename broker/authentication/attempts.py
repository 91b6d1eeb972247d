"""The places for attempts to log in: few for each address, so that guessing is slow, and one for everybody.

An attempt is under way while it is computed and while its refusal is held back, so whoever guesses keeps places taken.
An address has `OF_HOST_MAX` of them. Above `SHARED_MAX` in all, one that has a place gets no other; above `ALL_MAX`
only those get one by which somebody has logged in before. So neither sixteen addresses that guess, nor some thousand,
hold up the others, and those that a cluster's clients have are heard whatever else goes on.

An address of IPv6 stands for its network of 64 bits: one machine has as many as it likes of those. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from metadata.addresses import network_of

OF_HOST_MAX: Final = 16
SHARED_MAX: Final = 256
ALL_MAX: Final = 4_096
PROVEN_MAX: Final = 4_096
"""Addresses that are remembered by a log-in; the one whose last is longest ago is forgotten first."""


class Attempts:
    """The attempts under way at one node."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._total = 0
        self._proven: dict[str, None] = {}

    def enter(self, host: str) -> bool:
        """One more; False if there is no place for it. Whoever got one gives it back by `leave`."""
        network = network_of(host)
        own = self._under_way.get(network, 0)
        if own >= OF_HOST_MAX:
            return False
        if network not in self._proven and (self._total >= ALL_MAX or (own and self._total >= SHARED_MAX)):
            return False
        self._under_way[network] += 1
        self._total += 1
        return True

    def leave(self, host: str) -> None:
        network = network_of(host)
        self._total -= 1
        self._under_way[network] -= 1
        if not self._under_way[network]:
            del self._under_way[network]

    def proved(self, host: str) -> None:
        """Somebody has logged in from there."""
        network = network_of(host)
        self._proven.pop(network, None)
        self._proven[network] = None
        if len(self._proven) > PROVEN_MAX:
            del self._proven[next(iter(self._proven))]

    def is_proven(self, host: str) -> bool:
        return network_of(host) in self._proven

    def __len__(self) -> int:
        return self._total

    def __repr__(self) -> str:
        return f"Attempts({self._total} of {len(self._under_way)} addresses)"
