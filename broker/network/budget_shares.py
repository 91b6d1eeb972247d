"""The shares of a memory budget: the bytes that a stream, a party and all parties together may have. Pure arithmetic.

Three limits, from the inside out:

    a stream     may announce one part in `stream_share` of the budget
    a party      may announce half of the budget
    all          a party may have as much in memory as stays free for the others: half of the budget if it is
                 alone, a third where two have their share. A party that has nothing there, or not one part in
                 FLOOR_SHARE, is let in while there is room, and to take nothing in any case

One lease may exceed an empty share, or no message larger than a share would get through. Not here: the leases that are
counted, and the queue for room (memory_budget.py).
"""

from __future__ import annotations

from typing import Final, Protocol

PARTY_SHARE: Final = 2
"""Divides the budget: one party announces at most half of it."""
FLOOR_SHARE: Final = 64
"""Divides the budget: a party that has less than this in memory is let in while there is room."""


class ShareHolder(Protocol):
    """A stream or a party, as the shares see it."""

    announced: int
    used: int


class BudgetShares:
    """The limits of one budget, and the bytes that all have in memory now.

    `more` bytes fit if they may be added; `without` bytes of those that the holder has count as given back."""

    __slots__ = ("_party_max", "bytes_max", "floor", "stream_max", "used")

    def __init__(self, bytes_max: int, stream_share: int) -> None:
        self.bytes_max = bytes_max
        self.stream_max = bytes_max // stream_share
        self._party_max = bytes_max // PARTY_SHARE
        self.floor = bytes_max // FLOOR_SHARE
        self.used = 0

    @property
    def free(self) -> int:
        return self.bytes_max - self.used  # below 0 while there is more than should be

    def stream_fits(self, stream: ShareHolder, more: int, without: int = 0) -> bool:
        return stream.announced + more <= self.stream_max or stream.announced == without

    def party_fits(self, party: ShareHolder, more: int, without: int = 0) -> bool:
        return party.announced + more <= self._party_max or party.announced == without

    def fits(self, party: ShareHolder, more: int, without: int = 0) -> bool:
        """True if as much stays free for others as the party has, or it has little, which never waits for nothing."""
        free, used = self.free - more, party.used + more
        return used <= free or ((used <= self.floor or party.used == without) and (free >= 0 or not more))

    def room(self, stream: ShareHolder, party: ShareHolder) -> int:
        """How much the stream could take now."""
        free = self.free
        share = free if not party.used else max((free - party.used) // 2, min(free, self.floor - party.used))
        return max(0, min(share, self._party_max - party.announced, self.stream_max - stream.announced))

    def __repr__(self) -> str:
        return f"BudgetShares({self.used} of {self.bytes_max} bytes)"
