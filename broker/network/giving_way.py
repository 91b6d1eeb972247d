"""Decides which leases give way where parties with little wait for memory that others have had for long. Pure.

A budget (memory_budget.py) is full only where more parties have a share of it than it has floors, or by its one lease
above the limits. Those who fill it may send slowly, each no more than its floor, and hold it as long as a frame may
take. So while a party with little waits, memory that was taken long ago is taken back: from the party that has most,
the oldest first, until there is as much as is waited for and HEADROOM floors more, so that the next ones need not wait.

Not here: how long is long (incoming_frame.py), and how a lease is taken back, which ends its connection
(kafka_listener.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from broker.network.memory_budget import Lease, MemoryBudget

HEADROOM: Final = 8
"""An eighth of the budget."""


def giving_way(held: Iterable[Lease]) -> set[Lease]:
    """The leases that give way now, of those that were `held` for long; the oldest comes first."""
    of_budgets: dict[MemoryBudget, dict[str, deque[Lease]]] = {}
    for lease in held:
        of_parties = of_budgets.setdefault(lease.account.budget, {})
        of_parties.setdefault(lease.account.party.name, deque()).append(lease)
    gone: set[Lease] = set()
    for budget, of_parties in of_budgets.items():
        lacking = budget.lacking()
        if len(lacking) == 1:  # it takes nothing back from itself
            of_parties.pop(next(iter(lacking)), None)
        if lacking:
            gone |= _of_the_largest(of_parties, sum(lacking.values()) - budget.free + HEADROOM * budget.shares.floor)
    return gone


def _of_the_largest(of_parties: dict[str, deque[Lease]], wanted: int) -> set[Lease]:
    """Leases of `wanted` bytes together, or all. Of parties that have as much, the one with the oldest lease comes
    first."""
    gone: set[Lease] = set()
    largest = [(-of[0].account.party.used, age, name) for age, (name, of) in enumerate(of_parties.items())]
    heapify(largest)
    while wanted > 0 and largest:
        used, age, name = heappop(largest)
        lease = of_parties[name].popleft()
        gone.add(lease)
        wanted -= lease.size
        if of_parties[name]:
            heappush(largest, (used + lease.size, age, name))
    return gone
