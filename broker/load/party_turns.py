"""Turns at work that threads do for callers: a party has few pieces at work, and the parties take turns.

The first in a thread's queue would be the caller that asks most. So each party (network/parties.py) has a limited
number of pieces at work, also while threads are free: the next party must not wait until a long piece is done. When a
piece is done, the party that has waited longest begins its next one. A turn may be several small pieces of a party.

On the event loop. Not here: the threads, and how much one piece may cost.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable


class PartyTurns:
    """The turns at one set of threads."""

    def __init__(self, of_party: int, at_once: int = sys.maxsize, *, is_one_piece: bool = True) -> None:
        """`of_party`: pieces of one party that are at work at a time; `at_once`: those of all parties. `is_one_piece`:
        a turn ends with its piece, and otherwise by `end_turn`."""
        self._of_party, self._at_once, self._is_one_piece = of_party, at_once, is_one_piece
        self._at_work: Counter[str] = Counter()
        self._total = 0
        self._waiting: OrderedDict[str, deque[Callable[[], object]]] = OrderedDict()
        """The pieces that wait, by party; the party that has waited longest comes first."""
        self._is_giving = False

    @property
    def is_idle(self) -> bool:
        """True if nothing is at work; then nobody waits."""
        return not self._total

    def begin(self, party: str) -> bool:
        """True if a piece of the party may begin now; then `done` must be called."""
        if self._total >= self._at_once or self._at_work[party] >= self._of_party:
            return False
        self._at_work[party] += 1
        self._total += 1
        return True

    def wait(self, party: str, come: Callable[[], object]) -> None:
        """`come` is called when the party may begin a piece: it calls `begin`, unless nobody wants it any more."""
        self._waiting.setdefault(party, deque()).append(come)

    def end_turn(self, party: str) -> None:
        """Parties that wait come before the next piece of this one."""
        if party in self._waiting:
            self._waiting.move_to_end(party)

    def done(self, party: str) -> None:
        """A piece has ended."""
        self._at_work[party] -= 1
        if not self._at_work[party]:
            del self._at_work[party]
        self._total -= 1
        if not self._is_giving:  # else the loop there goes on
            self._is_giving = True
            try:
                self._give()
            finally:
                self._is_giving = False

    def _give(self) -> None:
        while self._total < self._at_once:
            party = next((one for one in self._waiting if self._at_work[one] < self._of_party), None)
            if party is None:
                return
            waiting = self._waiting.pop(party)
            come = waiting.popleft()
            if waiting:
                self._waiting[party] = waiting
                if not self._is_one_piece:
                    self._waiting.move_to_end(party, last=False)
            come()

    async def turn(self, party: str) -> None:
        """Returns when a piece of the party has begun; then `done` must be called."""
        if self.begin(party):
            return
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not come.done() and self.begin(party):
                come.set_result(None)

        self.wait(party, begin)
        try:
            await come
        except asyncio.CancelledError:
            if come.done() and not come.cancelled():  # its turn came in the same moment
                self.done(party)
            raise

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"PartyTurns({self._total} at work, {waiting} of {len(self._waiting)} parties wait)"
