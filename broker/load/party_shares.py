"""How much of one limited thing each party holds, and how much more it may take: bytes of state, or requests that wait.

    a party may add n while   held by it + n  <=  limit - held by all - n

One party alone gets half of the limit, two greedy ones a third each, n of them 1/(n+1) each, and as much as each of
these has stays free for a party that comes next. So nobody is refused because another party took everything, and there
is no share to configure. The rule is that of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
packet switches", IEEE/ACM Transactions on Networking, 1998, with a factor of one.

A party is a principal, or the network of an anonymous caller (network/parties.py). What no request brought belongs to
NOBODY. Pure. Not here: the refusal, which belongs to the owner of the thing.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final, NamedTuple

NOBODY: Final = ""
"""The holder of what no request brought: state that was loaded from the log, or that the node made."""
SHOWN_MAX: Final = 5
"""Parties that the metrics name: each is a series in a monitoring system."""


class PartyShare(NamedTuple):
    """A party, and how much it holds."""

    party: str
    held: int


class PartyShares:
    """How much each party holds. Changed on the event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refusals = 0
        """Requests, or parts of them, that were refused because their party holds too much."""
        self._held: dict[str, int] = {}

    def changed(self, party: str, by: int) -> None:
        """The party holds more now (`by` is positive), or less."""
        self.used += by
        held = self._held.get(party, 0) + by
        if held:
            self._held[party] = held
        else:
            self._held.pop(party, None)

    def held_by(self, party: str) -> int:
        return self._held.get(party, 0)

    def has_room(self, party: str, by: int) -> bool:
        """True if the party may add so much. To add nothing, or to give some back, is always allowed."""
        return by <= 0 or self.held_by(party) + by <= self.limit - self.used - by

    def largest(self, count: int = SHOWN_MAX) -> list[PartyShare]:
        """The parties that hold most; may be called in any thread."""
        rows = (PartyShare(party, held) for party, held in self._held.copy().items() if party != NOBODY)
        return nlargest(count, rows, key=lambda row: row.held)

    def __repr__(self) -> str:
        return f"PartyShares({self.used} of {self.limit}, {len(self._held)} parties)"
