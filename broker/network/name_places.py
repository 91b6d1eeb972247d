"""The places of names that get counts of their own in the metrics: a limited number, and a share for each party.

Clients choose their names, and any client that may connect could fill all places. A party may take one more while it
has no more than are free: alone it has half of them, and the next one always finds some. Without a free place a name
that is idle gives way: one of the same party, or else one of a party that has more. A name in use keeps its place. A
party is a principal, or the network of an anonymous client (parties.py). Pure. Not here: what is counted
(client_names.py, client_software.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class NamePlaces(Generic[K]):
    """The places of names with counts of their own. `is_idle` says that nobody uses a name now."""

    def __init__(self, places: int, is_idle: Callable[[K], bool]) -> None:
        self._places, self._is_idle = places, is_idle
        self._parties: dict[K, str] = {}
        """The party that took the place, by name; the oldest first."""
        self._taken: Counter[str] = Counter()

    def take(self, name: K, party: str, leaves: Callable[[K], None]) -> bool:
        """True if the new name has a place. `leaves` gets the name that has lost its own for that, if one has."""
        if self._taken[party] + 1 > self._places - len(self._parties) - 1:
            victim = self._gives_way(party)
            if victim is None:
                return False
            self._forget(victim)
            leaves(victim)
        self._parties[name] = party
        self._taken[party] += 1
        return True

    def _gives_way(self, party: str) -> K | None:
        """The oldest idle name of the party itself, or else of the one that has most, if that has more."""
        idle: dict[str, K] = {}
        for name, owner in self._parties.items():
            if owner not in idle and self._is_idle(name):
                idle[owner] = name
        if party in idle:
            return idle[party]
        richest = max(idle, key=self._taken.__getitem__, default=None)
        return None if richest is None or self._taken[richest] <= self._taken[party] else idle[richest]

    def _forget(self, name: K) -> None:
        party = self._parties.pop(name)
        self._taken[party] -= 1
        if not self._taken[party]:
            del self._taken[party]

    def __contains__(self, name: object) -> bool:
        return name in self._parties

    def __len__(self) -> int:
        return len(self._parties)

    def __repr__(self) -> str:
        return f"NamePlaces({len(self)} of {self._places}, {len(self._taken)} parties)"
