"""Lets few calls of a party begin in one turn of the event loop, so that others have theirs between them.

All calls begin when they come (call_intake.py): a party with a thousand of them open, each of 2 ms, would have the loop
for two seconds. So a call that has been read waits until fewer than OF_PARTY calls of its party have begun in this turn
of the loop; those of one party go on in their order. A party that is alone waits for nothing but a look at the sockets
between. The bytes of a call that waits count in the memory of its party.

On the event loop. Not here: long work (load/long_work.py), of which one piece in all is done at a time, and streams.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Final

OF_PARTY: Final = 2


class CallTurns:
    """The turns of the calls at one listener."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()
        """The calls that have begun in this turn of the loop, by party."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._has_next = False
        """True if the next turn of the loop gives turns."""

    def begin(self, party: str) -> bool:
        """True if a call of the party may begin now; it counts then."""
        if self._begun[party] >= OF_PARTY or party in self._waiting:
            return False
        self._begun[party] += 1
        self._give_next()
        return True

    async def turn(self, party: str) -> None:
        """Returns when a call of the party may begin; it counts."""
        if self.begin(party):
            return
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(party, deque()).append(come)
        await come

    def _give_next(self) -> None:
        if not self._has_next:
            self._has_next = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        self._has_next = False
        self._begun.clear()
        for party, waiting in list(self._waiting.items()):
            while waiting and self._begun[party] < OF_PARTY:
                come = waiting.popleft()
                if not come.done():  # else its client has left
                    come.set_result(None)
                    self._begun[party] += 1
            if not waiting:
                del self._waiting[party]
        if self._begun:
            self._give_next()

    def __repr__(self) -> str:
        return f"CallTurns({sum(map(len, self._waiting.values()))} calls of {len(self._waiting)} parties wait)"
