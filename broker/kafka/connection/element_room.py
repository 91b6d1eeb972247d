"""Limits the elements of requests that a node works on: those of all arrays, over all connections of Kafka's protocol.

An element costs far more than its bytes (two of the frame, and up to 500 of memory and some 20 µs of the event loop),
so the memory of frames does not bound it. A request with few is free. Another one takes a lease until its answer has
left, but not for much longer than LEASE_MS: a client that waits long must not hold up all others. While there is no
room, it is read no further than its first array that is too large, and asks for as many as it is known to need by then:
its bytes say nothing of them. Each party has a share of the room (memory_budget.py).

There are two rooms, as there are of memory. Requests with less than HEAVY elements have one of their own, so however
many parties work on large requests, smaller ones wait for none of them.

The room is one of time, too: a large request to an API that is not for records has its lease for HOLD_SECONDS at
least, also when it is answered or its connection has ended. So those of one party take less than half of the event
loop, and all else has its turns between them. Unknown tagged fields count as elements.

Not here: how many elements one request may have (`ApiRow.elements_max`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.network.memory_budget import Account, Lease, MemoryBudget, MemoryStatistics
from broker.network.request_memory import acquired

OPEN_MAX: Final = 20_000
"""One room has some 10 MB of requests, and less than half a second of work. One larger request is let in beside
them."""
CONNECTION_SHARE: Final = 2
FREE: Final = 16
"""Elements that a request has for nothing: those of most."""
LEASE_MS: Final = 1_000
HEAVY: Final = 1_000
"""A request with fewer is no large one."""
HOLD_SECONDS: Final = 0.5
PER_SECOND_MAX: Final = 20_000
"""Elements a second of one party: those of half of the room in HOLD_SECONDS."""


class ElementBudgets:
    """The rooms of one node. Their unit is an element."""

    def __init__(self) -> None:
        self.light = MemoryBudget(OPEN_MAX, CONNECTION_SHARE)
        self.heavy = MemoryBudget(OPEN_MAX, CONNECTION_SHARE)

    def statistics(self) -> MemoryStatistics:
        """Both together."""
        light, heavy = self.light.statistics(), self.heavy.statistics()
        return MemoryStatistics(
            light.used_bytes + heavy.used_bytes,
            light.bytes_max + heavy.bytes_max,
            light.waiting + heavy.waiting,
            light.pauses + heavy.pauses,
        )

    def __repr__(self) -> str:
        return f"ElementBudgets({self.light!r}, {self.heavy!r})"


class _Accounts:
    """A party's accounts in both rooms."""

    __slots__ = ("heavy", "light")

    def __init__(self, budgets: ElementBudgets, party: str) -> None:
        self.light, self.heavy = budgets.light.open(party), budgets.heavy.open(party)

    def close(self) -> None:
        self.light.close()
        self.heavy.close()


class ElementRoom:
    """The rooms, as one connection has them."""

    __slots__ = ("_accounts", "_budgets", "_left", "_open", "_since")

    def __init__(self, budgets: ElementBudgets, party: str) -> None:
        self._budgets, self._accounts = budgets, _Accounts(budgets, party)
        self._left: list[_Accounts] = []
        """Accounts from before a log-in."""
        self._open: dict[Lease, asyncio.TimerHandle | None] = {}
        """The leases, with the timers that end them."""
        self._since: dict[Lease, float] = {}
        """The begins of those that are paced, by the event loop's time."""

    def move(self, party: str) -> None:
        """The connection has logged in: its requests count as that party's from now on."""
        if party != self._accounts.light.party.name:
            self._left.append(self._accounts)
            self._accounts = _Accounts(self._budgets, party)

    def now(self, most: int) -> int:
        """How many elements a request may have now, if it may have `most` at most."""
        light, heavy = self._accounts.light, self._accounts.heavy
        if heavy.has_room(most):
            return most
        return max(FREE, min(_room_of(light), HEAVY - 1), _room_of(heavy))

    def take(self, count: int, *, is_paced: bool = False) -> Lease:
        """A lease for a request with no more than it may have now. `is_paced`: it holds its room for a while."""
        light, heavy = self._accounts.light, self._accounts.heavy
        account = light if count < HEAVY and light.has_room(count) else heavy
        return self._opened(account.take(count), is_paced)

    async def wait(self, count: int, *, is_paced: bool = False) -> Lease:
        """Returns when there is room for `count` elements, and their turn has come."""
        account = self._accounts.light if count < HEAVY else self._accounts.heavy
        return self._opened(await acquired(account, count), is_paced)

    def _opened(self, lease: Lease, is_paced: bool) -> Lease:
        self._open[lease] = None
        if is_paced:
            self._since[lease] = asyncio.get_running_loop().time()
        return lease

    def give_back(self, lease: Lease) -> None:
        """The lease turned out to be too small, and nothing was done with it."""
        lease.resize(0)
        self.release(lease)

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
        for accounts in (self._accounts, *self._left):
            accounts.close()

    def __repr__(self) -> str:
        return f"ElementRoom({self._accounts.light.used} and {self._accounts.heavy.used} of {self._budgets!r})"


def _room_of(account: Account) -> int:
    return account.room() if account.has_room(1) else 0
