"""Limits the elements of requests that a node works on: those of all arrays, over all connections of Kafka's protocol.

An element costs far more than its bytes (two of the frame, and up to 500 of memory and some 20 µs of the event loop),
so the memory of frames does not bound it. A request with few is free. Another one takes a lease until its answer has
left, but not for much longer than LEASE_MS: who waits long must not hold up all others. While there is no room, it is
read no further than its first array that is too large. Each party has a share of the room (memory_budget.py).

The room is one of time, too: a large request to an API that is not for records has its lease for HOLD_SECONDS at
least, also when it is answered or its connection has ended. So those of one party take less than half of the event
loop, and all else has its turns between them. Unknown tagged fields count as elements.

Not here: how many elements one request may have (`ApiRow.elements_max`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.network.memory_budget import Account, Lease, MemoryBudget
from broker.network.request_memory import acquired

OPEN_MAX: Final = 20_000
"""Some 10 MB of requests, and less than half a second of work. One larger request is let in beside them."""
CONNECTION_SHARE: Final = 2
FREE: Final = 16
"""Elements that a request has for nothing: those of most."""
LEASE_MS: Final = 1_000
HEAVY: Final = 1_000
HOLD_SECONDS: Final = 0.5
PER_SECOND_MAX: Final = 20_000
"""Elements a second of one party: those of half of the room in HOLD_SECONDS."""


def new_budget() -> MemoryBudget:
    """The room of one node. Its unit is an element."""
    return MemoryBudget(OPEN_MAX, CONNECTION_SHARE)


class ElementRoom:
    """The room of one connection."""

    __slots__ = ("_account", "_budget", "_left", "_open", "_since")

    def __init__(self, budget: MemoryBudget, party: str) -> None:
        self._budget, self._account = budget, budget.open(party)
        self._left: list[Account] = []
        """Accounts from before a log-in."""
        self._open: dict[Lease, asyncio.TimerHandle | None] = {}
        """The leases, with the timers that end them."""
        self._since: dict[Lease, float] = {}
        """The begins of those that are paced, by the event loop's time."""

    def move(self, party: str) -> None:
        """The connection has logged in: its requests count as that party's from now on."""
        if party != self._account.party.name:
            self._left.append(self._account)
            self._account = self._budget.open(party)

    def now(self, most: int) -> int:
        """How many a request may have now, if it may have so many at most."""
        if self._account.has_room(most):
            return most
        return max(FREE, self._account.room()) if self._account.has_room(1) else FREE

    def take(self, count: int, *, is_paced: bool = False) -> Lease:
        """A lease for a request with no more than it may have now. `is_paced`: it holds its room for a while."""
        return self._opened(self._account.take(count), is_paced)

    async def wait(self, count: int, *, is_paced: bool = False) -> Lease:
        """Returns when there is room for so many, and their turn has come."""
        return self._opened(await acquired(self._account, count), is_paced)

    def _opened(self, lease: Lease, is_paced: bool) -> Lease:
        self._open[lease] = None
        if is_paced:
            self._since[lease] = asyncio.get_running_loop().time()
        return lease

    def release(self, lease: Lease) -> None:
        """A second time does nothing."""
        if lease not in self._open:
            return
        timer, since = self._open.pop(lease), self._since.pop(lease, None)
        if timer is not None:
            timer.cancel()
        if since is None or lease.size < HEAVY:
            lease.release()
        else:  # by now it has as many as the request turned out to have
            until = since + max(HOLD_SECONDS, lease.size / PER_SECOND_MAX)
            asyncio.get_running_loop().call_at(until, lease.release)

    def release_soon(self, lease: Lease) -> None:
        """Ends the lease in the next turn of the loop."""
        asyncio.get_running_loop().call_soon(self.release, lease)

    def release_later(self, lease: Lease, has_turn: Callable[[], bool]) -> None:
        """Ends a lease that is still held by then, but not before the question that it is held for has had its turn."""
        if lease in self._open:
            loop = asyncio.get_running_loop()
            self._open[lease] = loop.call_later(LEASE_MS / 1000, self._release_after_turn, lease, has_turn)

    def _release_after_turn(self, lease: Lease, has_turn: Callable[[], bool]) -> None:
        if has_turn():
            self.release(lease)
        else:
            self.release_later(lease, has_turn)

    def close(self) -> None:
        """The connection is gone, and its plans with it."""
        for lease in tuple(self._open):
            self.release(lease)
        for account in (self._account, *self._left):
            account.close()

    def __repr__(self) -> str:
        return f"ElementRoom({self._account.used} of {self._account.budget!r})"
