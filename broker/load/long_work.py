"""Gives the work on large requests a part of the event loop, in turns: others have theirs between them.

A request with many elements takes long to decode, to look at, and to answer, whatever becomes of it: ten thousand
refusals take a quarter of a second. One client's dozens of them would hold up everybody. So such work is done in
pieces. One is done at a time, and the parties (network/parties.py) take turns. The time of a piece is owed, and so is
that of work that could not wait (`charge`). While more is owed than CREDIT_NS, the next piece begins only after REST
times the excess: so all of this work together has a quarter of the loop, if it goes on for long. A large request now
and then waits for nothing.

On the event loop. Not here: which requests are large (kafka/connection/), and work that threads do (party_turns.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.load.party_turns import PartyTurns

PIECE_NS: Final = 2_000_000
"""The time that work which can be divided goes on; then it waits for its next turn."""
CREDIT_NS: Final = 50_000_000
"""The time that may be owed before work has to rest; to decode and to look at 5,000 partitions takes that long."""
REST: Final = 3


class LongWork:
    """The long work of one node."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns` is monotonic, and moves on within a turn of the loop."""
        self.now_ns, self._turns = now_ns, PartyTurns(of_party=1, at_once=1)
        self._owed_ns, self._as_of_ns, self._began_ns = 0, now_ns(), 0

    @property
    def is_free(self) -> bool:
        """True if a piece may begin, and nobody else waits for that."""
        return self._turns.is_idle

    async def turn(self, party: str) -> None:
        """Returns when a piece of the party has begun; then `done` must be called, without a wait in between."""
        await self._turns.turn(party)
        self._began_ns = self.now_ns()

    @property
    def is_long(self) -> bool:
        """True if the piece that is at work should end."""
        return self.now_ns() - self._began_ns >= PIECE_NS

    def done(self, party: str) -> None:
        """The piece has ended."""
        self._owe(self.now_ns() - self._began_ns)
        self._rest(party)

    def charge(self, party: str, spent_ns: int) -> None:
        """The party's work took so long, and had no turn."""
        self._owe(spent_ns)
        if self._owed_ns > CREDIT_NS and self._turns.begin(party):
            self._rest(party)

    def _owe(self, spent_ns: int) -> None:
        now_ns = self.now_ns()
        paid_ns = max(now_ns - spent_ns - self._as_of_ns, 0) // REST
        self._owed_ns = max(self._owed_ns - paid_ns, 0) + spent_ns
        self._as_of_ns = max(self._as_of_ns, now_ns)

    def _rest(self, party: str) -> None:
        """Ends the turn, now or later; the others of the loop are first in any case."""
        loop, excess_ns = asyncio.get_running_loop(), self._owed_ns - CREDIT_NS
        if excess_ns <= 0:
            loop.call_soon(self._turns.done, party)
            return
        self._owed_ns, self._as_of_ns = CREDIT_NS, self.now_ns() + REST * excess_ns
        loop.call_later(REST * excess_ns / 1e9, self._rest, party)

    def __repr__(self) -> str:
        return f"LongWork({self._owed_ns / 1e6:.1f} ms owed, {self._turns!r})"
