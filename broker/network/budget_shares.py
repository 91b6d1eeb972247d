"""The shares of a memory budget: the bytes that a stream, a party and all parties together may have; and the parties
that wait for theirs, in the order of their turns. Pure arithmetic.

Three limits, from the inside out:

    a stream     may announce one part in `stream_share` of the budget
    a party      may announce half of the budget
    all          a party may have as much in memory as stays free for the others: half of the budget if it is
                 alone, a third where two have their share. A party that has nothing there, or not one part in
                 FLOOR_SHARE, is let in while there is room, and to take nothing in any case

One lease may exceed an empty share, or no message larger than a share would get through.

As many parties may wait as there are connections, and each release of a lease asks whether one of them may go on. A
look at all would take milliseconds for thousands, and a log-in has a dozen releases. So two things are known without a
look: the least room that one of them needs, and whether one may have a lease that must not wait. Both are noted for a
party when its first stream, or what it has, is another one. They are never too strict, and exact after a look at all
that found nobody. Not here: the leases that are counted, and whose turn it is (memory_budget.py).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

PARTY_SHARE: Final = 2
"""Divides the budget: one party announces at most half of it."""
FLOOR_SHARE: Final = 64
"""Divides the budget: a party that has less than this in memory is let in while there is room."""
ABOVE_SHARE: Final = 8
"""Divides the budget: a lease larger than this part does not wait until as much is free."""
NEVER: Final = 1 << 62


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


class WaitingParty(Protocol):
    """A party, with its streams that wait: first those whose leases are to grow, then those that are to begin. Each has
    a `size` and takes `more` bytes."""

    name: str
    announced: int
    used: int
    growing: deque[Any]
    waiting: deque[Any]


P = TypeVar("P", bound=WaitingParty)


class WaitingParties(Generic[P]):
    """The parties of one budget that wait."""

    def __init__(self, shares: BudgetShares) -> None:
        self._shares = shares
        self._parties: OrderedDict[str, P] = OrderedDict()
        self._least_free = NEVER
        """While less is free, none of them fits. Never above the least that one needs."""
        self._may_be_urgent = False

    def note(self, party: P) -> None:
        """The first stream of a party that may wait, or what the party has, is another one. A party without a stream
        that waits leaves."""
        if party.waiting or party.growing:
            self._parties.setdefault(party.name, party)
            self._least_free = min(self._least_free, self._needs_free(party))
            self._may_be_urgent = self._may_be_urgent or self.is_urgent(party)
        else:
            self._parties.pop(party.name, None)

    def _needs_free(self, party: P) -> int:
        """While less is free, its first stream does not fit; see `BudgetShares.fits`."""
        first = (party.growing or party.waiting)[0]
        if not party.growing and not self._shares.party_fits(party, first.size):
            return NEVER  # until it has announced less
        if party.used + first.more <= self._shares.floor or not party.used:
            return int(first.more) or -NEVER
        return int(party.used + 2 * first.more)

    def is_urgent(self, party: P) -> bool:
        """True if its first stream must not wait for room, however few have overtaken it."""
        if party.growing:
            return True
        first = party.waiting[0]
        return first.more > self._shares.bytes_max // ABOVE_SHARE and self._shares.party_fits(party, first.size)

    @property
    def may_fit(self) -> bool:
        """False if none of them fits."""
        return bool(self._parties) and (self._shares.free >= self._least_free or not self._shares.used)

    @property
    def may_be_urgent(self) -> bool:
        """False if none of them has a lease that must not wait."""
        return self._may_be_urgent

    def nobody_fits(self) -> None:
        """A look at all of them has found none that fits."""
        self._least_free = min(map(self._needs_free, self._parties.values()), default=NEVER)

    def nobody_is_urgent(self) -> None:
        """A look at all of them has found none that is urgent."""
        self._may_be_urgent = False

    def first(self) -> P:
        """The party that has waited longest."""
        return next(iter(self._parties.values()))

    def to_end(self, party: P) -> None:
        """The party has had its turn."""
        self._parties.move_to_end(party.name)

    def __iter__(self) -> Iterator[P]:
        return iter(self._parties.values())

    def __len__(self) -> int:
        return len(self._parties)

    def __repr__(self) -> str:
        return f"WaitingParties({len(self._parties)}, {self._least_free} bytes needed)"
