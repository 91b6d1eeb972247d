"""Limits the bytes that one kind of data may take of the node's memory, and decides which waiting stream goes on next.

A budget has an account for every stream, and a share for every party (parties.py). Bytes are counted with a `Lease`,
and given back when it is released. A lease has a size that it may grow to, and counts what has come of it so far: an
announcement costs its sender what it has sent. budget_shares.py has the limits of a stream, of a party and of all.

A stream that waits for itself or for its party holds up no other. Parties that wait for room take turns, and smaller
leases may overtake larger ones, but not for ever. Some must not wait for room: leases that are to grow, because they
hold memory, very large ones, for which there may never be room, and those of a party with little that were overtaken
too often. Of these one at a time is let in above the limits. So bytes in memory are at most the budget and one lease,
and those that `take` counts.

`take` counts bytes that are in memory already, so it never waits. Pure, but for the callback of the stream whose turn
it is. Not here: which parties there are, how fast a message must come (the listeners), and what is in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.network.budget_shares import BudgetShares, WaitingParties
from penstock.addresses import network_of
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured

OVERTAKEN_MAX: Final = 64
"""The leases that may begin while another one waits for room; then none that takes some begins before it."""

Granted = Callable[["Lease"], None]


class Lease:
    """Bytes of an account, until they are released: `size` of them are counted."""

    __slots__ = ("_growing", "account", "announced", "is_above", "size")

    def __init__(self, account: Account, announced: int, size: int) -> None:
        self.account, self.announced, self.size = account, announced, size
        self._growing: _Waiter | None = None
        self.is_above = False
        """Let in above the limits: it is not asked again when it grows."""

    def resize(self, size: int) -> None:
        """The bytes turned out to be `size`, and will not be more."""
        budget, announced, before = self.account.budget, self.announced, self.size
        self.announced = self.size = size
        leaves_top = self.is_above and (not size or before - size >= -budget.free)  # it takes none above the limits now
        if leaves_top:
            self.is_above, budget.top = False, None
        budget.change(self.account, size - announced, size - before, leaves_top)

    def grow(self, size: int, granted: Granted) -> bool:
        """True if as many announced bytes are counted now; else `granted` is called then. One waits at most."""
        budget, more = self.account.budget, size - self.size
        if self.is_above or budget.may_grow(self.account, more):
            self.granted(size)
            return True
        self._growing = _Waiter(self.account, self, size, more, granted)
        return budget.wait_to_grow(self._growing) is not None

    def granted(self, size: int) -> None:
        """Counts so many as in memory; no growth waits."""
        more, self.size, self._growing = size - self.size, size, None
        self.account.budget.change(self.account, 0, more)

    @property
    def is_in_the_way(self) -> bool:
        """True if it was let in above the limits, and another party waits."""
        return self.is_above and self.account.budget.others_wait(self.account)

    def release(self) -> None:
        """The bytes are gone; a second time does nothing."""
        if self._growing is not None:
            self.account.budget.forget(self._growing)
            self._growing = None
        if self.announced:
            self.resize(0)


class Account:
    """The bytes of one stream. At most one `acquire` of it waits at a time."""

    __slots__ = ("announced", "budget", "party", "used", "waiter")

    def __init__(self, budget: MemoryBudget, party: _Party) -> None:
        self.budget, self.party = budget, party
        self.announced = self.used = 0
        self.waiter: _Waiter | None = None

    def take(self, size: int) -> Lease:
        """Count bytes that are in memory already."""
        return self.budget.taken(self, size, size)

    def acquire(self, size: int, granted: Granted, come: int | None = None) -> Lease | None:
        """A lease now; or None, and `granted` gets it in its turn. `come` is counted first; by default all of it."""
        first = size if come is None else come
        if self.budget.may_begin(self, size, first):
            return self.budget.taken(self, size, first)
        return self.budget.wait(_Waiter(self, None, size, first, granted))

    def take_little(self, size: int) -> Lease | None:
        """Takes the bytes if the party has little then, however much others have; else returns None."""
        return self.take(size) if self.party.used + size <= self.budget.shares.floor else None

    def has_room(self, size: int, *, without: int = 0) -> bool:
        """True if `size` bytes could be taken now, if the account had not `without` bytes of those that it has."""
        return self.budget.may_begin(self, size, size, without)

    def room(self) -> int:
        """How much could be taken now."""
        return self.budget.shares.room(self, self.party)

    def withdraw(self) -> None:
        """The `acquire` that waits, if there is one, is not wanted any more: it will not be granted."""
        self.budget.withdraw(self)

    def close(self) -> None:
        """The stream is gone; its leases may be released later."""
        self.budget.leave(self)


@dataclass(slots=True, eq=False)
class _Waiter:
    account: Account
    lease: Lease | None
    """The lease that waits to grow; None: one that is to begin."""
    size: int
    """The lease has it once it is granted: as announced, or what is counted of one that grows."""
    more: int
    """Bytes in memory that this takes."""
    granted: Granted


class _Party:
    """The streams of one party."""

    __slots__ = ("announced", "growing", "name", "streams", "used", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.streams = self.announced = self.used = 0
        self.growing: deque[_Waiter] = deque()
        """Leases that wait to grow. They go before those that wait to begin: they hold memory already."""
        self.waiting: deque[_Waiter] = deque()


@measured
class MemoryStatistics:
    """A budget now; `pauses` is since the node's start."""

    used_bytes: int = gauge("penstock_memory_used_bytes", "Bytes of requests, answers and fetch sessions in memory.")
    bytes_max: int = gauge("penstock_memory_max_bytes", "Bytes of them that there may be in memory.")
    waiting: int = gauge("penstock_memory_waiting_streams", "Streams that wait for room before they go on.")
    pauses: int = counter("penstock_memory_pauses", "How often a stream had to wait for room.")


class MemoryBudget:
    """One kind of data of a node. `stream_share` divides the budget."""

    def __init__(self, bytes_max: int, stream_share: int) -> None:
        self.shares = BudgetShares(bytes_max, stream_share)
        self._pauses = self._waiting = 0
        self._parties: dict[str, _Party] = {}
        self._turns: WaitingParties[_Party] = WaitingParties(self.shares)
        self.top: Lease | None = None
        """The one lease that was let in above the limits."""
        self._overtaken = 0
        """Leases that have begun since another one had its turn, while somebody waited."""
        self._is_granting = False

    def open(self, party_name: str) -> Account:
        """The account of a new stream of a party. An address counts as its network."""
        party_name = network_of(party_name)
        party = self._parties.setdefault(party_name, _Party(party_name))
        party.streams += 1
        return Account(self, party)

    @property
    def free(self) -> int:
        return self.shares.free

    # -- limits --------------------------------------------------------------------------------------------------------

    def may_begin(self, account: Account, size: int, first: int, without: int = 0) -> bool:
        """True if a lease of `size` may begin with `first` bytes, and no other stream of its party is before it. A
        lease of nothing is before them all: it takes no room that they wait for."""
        party, shares, is_late = account.party, self.shares, self._overtaken >= OVERTAKEN_MAX
        return (
            not (first and (party.waiting or party.growing))
            and not (first and is_late and any(map(self._waits_for_others, self._turns)))
            and shares.stream_fits(account, size - without, without)
            and shares.party_fits(party, size - without, without)
            and (shares.fits(party, first - without, without) or shares.used == without)
        )

    def may_grow(self, account: Account, more: int) -> bool:
        """True if `more` bytes of a lease may be in memory."""
        return not account.party.growing and self.shares.fits(account.party, more)

    # -- changes -------------------------------------------------------------------------------------------------------

    def taken(self, account: Account, size: int, first: int) -> Lease:
        """A new lease of `size`, of which `first` bytes are counted."""
        self._overtaken = self._overtaken + 1 if self._turns else 0
        self.change(account, size, first)
        return Lease(account, size, first)

    def change(self, account: Account, announced: int, used: int, leaves_top: bool = False) -> None:
        """Counts bytes more, or fewer, as announced and in memory. `leaves_top`: others may be let in above all."""
        if announced > 0 and not account.party.streams:  # its party may be forgotten, or another one by now
            account.party = self._parties.setdefault(account.party.name, account.party)
        self.shares.used += used
        account.used += used
        account.announced += announced
        party = account.party
        party.used += used
        party.announced += announced
        if used >= 0 and announced >= 0 and not leaves_top:
            return
        waiter = account.waiter
        if waiter is not None and self.shares.stream_fits(account, waiter.size):
            account.waiter = None
            party.waiting.append(waiter)
        if party.waiting or party.growing:
            self._turns.note(party)
        if self._turns:
            self._grant()
        self._maybe_forget(party)

    def others_wait(self, account: Account) -> bool:
        """True if another party waits for room, and not for a share of its own that is in use."""
        return any(p is not account.party and (p.growing or self._waits_for_others(p)) for p in self._turns)

    def lacking(self) -> dict[str, int]:
        """The parties with little that wait, and for how many bytes of a lease, their floor at most."""
        first = {p.name: (p.growing or p.waiting)[0] for p in self._turns if self._has_little(p)}
        rest = {name: one.lease.announced - one.lease.size if one.lease else one.size for name, one in first.items()}
        return {name: min(size, self.shares.floor) for name, size in rest.items()}

    def wait(self, waiter: _Waiter) -> Lease | None:
        """Queue behind the stream's own leases, then behind its party. The lease if it is granted at once, uncalled."""
        account = waiter.account
        if self.shares.stream_fits(account, waiter.size):
            return self._queued(account.party.waiting, waiter)
        self._pauses += 1
        self._waiting += 1
        account.waiter = waiter
        return None

    def wait_to_grow(self, waiter: _Waiter) -> Lease | None:
        """Queue for more of a lease; like `wait`."""
        return self._queued(waiter.account.party.growing, waiter)

    def _queued(self, queue: deque[_Waiter], waiter: _Waiter) -> Lease | None:
        at_once: list[Lease] = []
        granted, waiter.granted = waiter.granted, at_once.append
        self._waiting += 1
        queue.append(waiter)
        party = waiter.account.party
        self._turns.note(party)
        self._grant()
        waiter.granted = granted
        if at_once:
            return at_once[0]
        self._pauses += 1
        return None

    def _grant(self) -> None:
        """Give room to the waiting streams, party by party, while there is any. What they do then meets this round."""
        if not self._is_granting:
            self._is_granting = True
            try:
                self._grant_in_turn()
                while self._turns and self._let_one_in():
                    self._grant_in_turn()
            finally:
                self._is_granting = False

    def _grant_in_turn(self) -> None:
        passed_over = 0
        while self._turns.may_fit and passed_over < len(self._turns):
            party = self._turns.first()
            if self._first_fits(party):
                passed_over = 0
            elif self._overtaken >= OVERTAKEN_MAX and self._waits_for_others(party):
                return  # its turn goes to no other
            else:
                passed_over += 1
            self._turns.to_end(party)
            if not passed_over:
                self._overtaken = 0
                self._grant_first(party)
        if passed_over:
            self._turns.nobody_fits()

    def _first_fits(self, party: _Party) -> bool:
        shares = self.shares
        if party.growing:
            return shares.fits(party, party.growing[0].more)
        first = party.waiting[0]
        return shares.party_fits(party, first.size) and (shares.fits(party, first.more) or not shares.used)

    def _waits_for_others(self, party: _Party) -> bool:
        """True if its first stream could begin but for them: the party has no share in use."""
        return not party.growing and self._has_little(party)

    def _has_little(self, party: _Party) -> bool:
        """True of a party that waits, and not for a share of its own."""
        first = (party.growing or party.waiting)[0]
        is_little = party.used + first.more <= self.shares.floor or not party.used
        return is_little and bool(party.growing or self.shares.party_fits(party, first.size))

    def _let_one_in(self) -> bool:
        """True if a lease was let in before its turn: one of nothing, or above the limits one that must not wait."""
        turns, is_late = self._turns, self._overtaken >= OVERTAKEN_MAX
        if not turns.may_fit and (self.top is not None or not (turns.may_be_urgent or is_late)):
            return False
        for party in turns:
            must_not_wait = turns.is_urgent(party) or (is_late and self._waits_for_others(party))
            is_nothing = not (party.growing or party.waiting)[0].more and self._first_fits(party)
            if is_nothing or (must_not_wait and self.top is None):
                turns.to_end(party)
                self._grant_first(party, above=not is_nothing)
                return True
        if self.top is None:
            turns.nobody_is_urgent()
        return False

    def _grant_first(self, party: _Party, *, above: bool = False) -> None:
        queue = party.growing or party.waiting
        waiter = queue.popleft()
        self._turns.note(party)
        self._waiting -= 1
        lease = waiter.lease or self.taken(waiter.account, waiter.size, waiter.more)
        if waiter.lease is not None:
            lease.granted(waiter.size)
        if above:
            lease.is_above, self.top = True, lease
        waiter.granted(lease)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def leave(self, account: Account) -> None:
        """The account's stream is gone, and waits no more."""
        account.party.streams -= 1
        self.withdraw(account)
        self._maybe_forget(account.party)

    def _maybe_forget(self, party: _Party) -> None:
        if not (party.announced or party.used or party.streams):
            self._parties.pop(party.name, None)

    def withdraw(self, account: Account) -> None:
        """The account waits no more to begin."""
        party = account.party
        if account.waiter is not None:
            account.waiter, self._waiting = None, self._waiting - 1
        before = len(party.waiting)
        party.waiting = deque(waiter for waiter in party.waiting if waiter.account is not account)
        self._waiting -= before - len(party.waiting)
        self._went(party)

    def forget(self, waiter: _Waiter) -> None:
        """The lease waits no more to grow."""
        party = waiter.account.party
        if waiter in party.growing:
            party.growing.remove(waiter)
            self._waiting -= 1
            self._went(party)

    def _went(self, party: _Party) -> None:
        """Some of its streams wait no more."""
        self._turns.note(party)
        self._grant()

    def statistics(self) -> MemoryStatistics:
        return MemoryStatistics(self.shares.used, self.shares.bytes_max, self._waiting, self._pauses)

    def __repr__(self) -> str:
        return f"MemoryBudget({self.shares.used} of {self.shares.bytes_max} bytes, {self._waiting} wait)"
