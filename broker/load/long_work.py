"""Gives the work on large requests a part of the event loop, in turns: others have theirs between them.

A request with many elements takes long to decode, to look at, and to answer, whatever becomes of it: ten thousand
refusals take a quarter of a second. One client's dozens of them would hold up everybody. So such work is done in
pieces. One is done at a time, and the parties (network/parties.py) take turns. A turn is one piece, or CREDIT_NS of
small ones: by pieces a party of many small ones would starve beside one of large ones. The time of a piece is owed, and
so is that of work that could not wait (`charge`). While more is owed than CREDIT_NS, the next piece begins only after
REST times the excess: so all of this work together has a quarter of the loop, if it goes on for long. A large request
now and then waits for nothing.

A rest is for requests that are not large, of anybody and at any listener (`asked`). Where none has come for QUIET_NS,
and for as long as the rest would take, the next piece begins in the next turn of the loop. But during a long piece the
loop hears of nobody. So after one it listens for a part of the time (LISTENING), and rests if somebody asks.

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
EXCESS_NS_MAX: Final = 500_000_000
"""More is not owed: a node that was stopped in the middle of a piece for a minute must not rest for three."""
QUIET_NS: Final = 50_000_000
"""A party that asks 20 times a second or more finds the work at rest."""
LISTENING: Final = 4
"""The part of a long piece's time for which the loop listens after it, where nobody has asked before: a quarter."""
LISTENED_NS_MIN: Final = 1_000_000
"""The loop's timers are no finer. A turn of the loop hears those who asked during a shorter piece."""


class LongWork:
    """The long work of one node."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns` is monotonic, and moves on within a turn of the loop."""
        self.now_ns, self._turns = now_ns, PartyTurns(of_party=1, at_once=1, is_one_piece=False)
        self._round, self._round_ns = "", 0
        """The party whose turn it is, and the time that its pieces have taken in it."""
        self._owed_ns, self._as_of_ns, self._began_ns = 0, now_ns(), 0
        self._asked_ns: int | None = None

    @property
    def is_free(self) -> bool:
        """True if a piece may begin, and nobody else waits for that."""
        return self._turns.is_idle

    def asked(self, now_ns: int) -> None:
        """A request that is not large has its turn."""
        self._asked_ns = now_ns

    async def turn(self, party: str) -> None:
        """Returns when a piece of the party has begun; then `done` must be called, without a wait in between."""
        await self._turns.turn(party)
        if party != self._round:
            self._round, self._round_ns = party, 0
        self._began_ns = self.now_ns()

    @property
    def is_long(self) -> bool:
        """True if the piece that is at work should end."""
        return self.now_ns() - self._began_ns >= PIECE_NS

    def done(self, party: str) -> None:
        """The piece has ended."""
        spent_ns = self.now_ns() - self._began_ns
        self._round_ns += spent_ns
        if self._round_ns >= CREDIT_NS:
            self._turns.end_turn(party)
        self._owe(spent_ns)
        self._rest(party)

    def charge(self, party: str, spent_ns: int) -> None:
        """The work on a large request of the party took `spent_ns`, and had no turn."""
        self._owe(spent_ns)
        if self._owed_ns > CREDIT_NS and self._turns.begin(party):
            self._rest(party)

    def _owe(self, spent_ns: int) -> None:
        now_ns = self.now_ns()
        paid_ns = max(now_ns - spent_ns - self._as_of_ns, 0) // REST
        owed_ns = max(self._owed_ns - paid_ns, 0) + spent_ns
        self._owed_ns = min(owed_ns, CREDIT_NS + EXCESS_NS_MAX)
        self._as_of_ns = max(self._as_of_ns, now_ns)

    def _rest(self, party: str) -> None:
        """Ends the turn, now or later; the others of the loop are first in any case."""
        excess_ns = self._owed_ns - CREDIT_NS
        if excess_ns <= 0:
            asyncio.get_running_loop().call_soon(self._turns.done, party)
        elif self._is_asked_for(REST * excess_ns):
            self._end_after(REST * excess_ns, party)
        elif excess_ns < LISTENING * LISTENED_NS_MIN:
            self._end_after(0, party)
        else:
            asyncio.get_running_loop().call_later(excess_ns / LISTENING / 1e9, self._listened, party)

    def _is_asked_for(self, rest_ns: int) -> bool:
        """True if somebody asks who has the loop in a rest."""
        return self._asked_ns is not None and self.now_ns() - self._asked_ns < max(rest_ns, QUIET_NS)

    def _listened(self, party: str) -> None:
        rest_ns = REST * max(self._owed_ns - CREDIT_NS, 0)
        self._end_after(rest_ns if self._is_asked_for(rest_ns) else 0, party)

    def _end_after(self, rest_ns: int, party: str) -> None:
        """Nothing above the credit is owed then. What is charged meanwhile is the next rest's: a waiting party has its
        turn before."""
        loop = asyncio.get_running_loop()
        self._owed_ns, self._as_of_ns = min(self._owed_ns, CREDIT_NS), self.now_ns() + rest_ns
        if rest_ns:
            loop.call_later(rest_ns / 1e9, self._turns.done, party)
        else:
            loop.call_soon(self._turns.done, party)

    def __repr__(self) -> str:
        return f"LongWork({self._owed_ns / 1e6:.1f} ms owed, {self._turns!r})"
