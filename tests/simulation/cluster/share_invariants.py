"""I86 and I87: whoever shares a node's memory has a share of it, and waits for nobody but itself for long.

The budgets of a broker are watched from its start: each lease that is counted is kept here until it is given back, and
what the budgets say of themselves is compared with that. The rules are written anew, from the texts at the top of
memory_budget.py and budget_shares.py in broker/network/, and not from their code. Each 0.25 s, as everything that no
step announces; of a process that is paused nothing is asked. Not here: how late an ack may be beside flooders (I88,
client_invariants.py).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.incoming_frame import IncomingFrame
from broker.network.memory_budget import Account, Lease, MemoryBudget
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.machine import Machine

if TYPE_CHECKING:
    from broker.node.broker_parts import BrokerParts

HALF, FLOOR_SHARE = 2, 64
SMALL_BYTES, FIRST_BYTES, STEP_BYTES = 65_536, 512, 1 << 20
FRAME_SECONDS, BYTES_PER_S_MIN = 60.0, 1_000.0
SWEEP_SECONDS = 2.5
"""Between two looks of a listener at its connections, between two of ours, and of clocks that differ."""
WAIT_SECONDS = 5.0
"""A lease above the limits has 3 s (ABOVE_MS_MAX) while others wait, and is cut by the next sweep. So long a party with
little waits at most, for each party that has its turn before."""


class WatchedLease(Lease):
    """Says when it is given back, and when it counts again."""

    __slots__ = ()

    @property
    def budget(self) -> WatchedBudget:
        return cast(WatchedBudget, self.account.budget)

    def resize(self, size: int) -> None:
        """A lease that was given back counts again where its bytes are in memory still, as with `take`: of a request
        whose plan has another question."""
        super().resize(size)
        if size and self not in self.budget.leases:
            self.budget.taken_leases.add(self)
        if size:
            self.budget.leases[self] = None

    def release(self) -> None:
        super().release()
        self.budget.leases.pop(self, None)
        self.budget.taken_leases.discard(self)


class WatchedAccount(Account):
    """Says which leases are of bytes that were in memory already."""

    __slots__ = ()

    def take(self, size: int) -> Lease:
        lease = super().take(size)
        cast(WatchedBudget, self.budget).taken_leases.add(lease)
        return lease


class WatchedBudget(MemoryBudget):
    """Keeps the accounts and leases that it has made, and says what is wrong with its books."""

    accounts: dict[Account, None]
    leases: dict[WatchedLease, None]
    taken_leases: set[Lease]

    def begin(self) -> None:
        self.accounts, self.leases, self.taken_leases = {}, {}, set()

    def open(self, party_name: str) -> Account:
        account = super().open(party_name)
        account.__class__ = WatchedAccount
        self.accounts[account] = None
        return account

    def leave(self, account: Account) -> None:
        super().leave(account)
        self.accounts.pop(account, None)

    def taken(self, account: Account, size: int, first: int) -> Lease:
        lease = super().taken(account, size, first)
        lease.__class__ = WatchedLease
        self.leases[cast(WatchedLease, lease)] = None
        return lease

    @property
    def parties(self) -> list[str]:
        return list(self._parties)

    @property
    def bytes_max(self) -> int:
        return self.shares.bytes_max

    @property
    def used(self) -> int:
        return self.shares.used

    @property
    def waits_s_max(self) -> float:
        """So long a party with little may wait."""
        return WAIT_SECONDS * max(1, len(self._turns))

    def wrong(self) -> Iterator[str]:
        yield from self._wrong_books()
        yield from self._wrong_shares()
        for name in self._parties:
            if is_network(name) and ipaddress.ip_network(name).prefixlen > 64 and ":" in name:
                yield f"the address {name} is a party, and one machine has as many of IPv6 as it likes"

    def _wrong_books(self) -> Iterator[str]:
        """The budget counts just the leases that there are, in all and by party."""
        used: Counter[Any] = Counter()
        announced: Counter[Any] = Counter()
        for lease in self.leases:
            used[lease.account.party] += lease.size
            announced[lease.account.party] += lease.announced
        if self.shares.used != used.total():
            yield f"{self.shares.used} bytes are counted, and there are {used.total()}"
        for party in dict.fromkeys((*self._parties.values(), *used)):
            if (party.used, party.announced) != (used[party], announced[party]):
                yield (
                    f"{party.name} has {party.used} of {party.announced} bytes by the books, and {used[party]} of"
                    f" {announced[party]} by its leases"
                )
        if self.top is not None and not (self.top in self.leases and self.top.is_above):
            yield "the lease above the limits is gone, and no other may be there"

    def _wrong_shares(self) -> Iterator[str]:
        """But for what was in memory already: all have the budget and one lease, a party half of it or one lease."""
        counted = [lease for lease in self.leases if lease not in self.taken_leases]
        total = sum(lease.size for lease in counted)
        if total - max((lease.size for lease in counted), default=0) > self.bytes_max:
            yield f"{total} bytes in memory, {self.bytes_max} and one lease may be"
        of: dict[Any, list[WatchedLease]] = {}
        for lease in counted:
            of.setdefault(lease.account.party, []).append(lease)
        for party, leases in of.items():
            used = sum(lease.size for lease in leases if not lease.is_above)
            announced = sum(lease.announced for lease in leases)
            if used > max(self.bytes_max // HALF, *(lease.size for lease in leases)):
                yield f"{party.name} has {used} bytes in memory, of {self.bytes_max}"
            if announced > max(self.bytes_max // HALF, *(lease.announced for lease in leases)):
                yield f"{party.name} announces {announced} bytes, of {self.bytes_max}"

    def waiters(self) -> Iterator[tuple[Any, str]]:
        """All that wait, and what of their own they wait for; "" if it is others."""
        for account in self.accounts:
            if (waiter := account.waiter) is not None:
                is_full = account.announced and account.announced + waiter.size > self.shares.stream_max
                yield waiter, "its stream" if is_full else ""
        for party in self._parties.values():
            for place, waiter in enumerate((*party.growing, *party.waiting)):
                more, free = party.used + waiter.more, self.bytes_max - self.used - waiter.more
                if place:
                    yield waiter, "another one of its party"
                elif not party.growing and party.announced and party.announced + waiter.size > self.bytes_max // HALF:
                    yield waiter, "what its party has announced"
                else:
                    has_share = party.used and more > max(free, self.bytes_max // FLOOR_SHARE)
                    yield waiter, "the share of its party" if has_share else ""


def watched(budget: MemoryBudget) -> WatchedBudget:
    budget.__class__ = WatchedBudget
    found = cast(WatchedBudget, budget)
    found.begin()
    return found


class ShareInvariants:
    """The budgets of one process of a broker."""

    def __init__(self, machine: Machine, broker: BrokerParts, *, is_secured: bool) -> None:
        """`is_secured`: clients log in at every listener for them."""
        self._machine, self._is_secured = machine, is_secured
        memory, before = broker.requests.request_memory, broker.requests.log_in_memory
        self.of_users = {
            "small requests": watched(memory.small),
            "large requests": watched(memory.large),
            "answers": watched(memory.answers),
        }
        self._all = self.of_users | {
            "small requests before log-ins": watched(before.small),
            "large requests before log-ins": watched(before.large),
            "answers before log-ins": watched(before.answers),
            "fetch answers": watched(broker.requests.answer_memory),
            "fetch sessions": watched(broker.requests.session_memory),
        }
        if machine.config.kafka_listeners and machine.kafka is not None:
            elements = machine.kafka.elements
            self._all |= {"few elements": watched(elements.light), "many elements": watched(elements.heavy)}
        self._connections = machine.kafka_connections
        self._waiting: dict[int, tuple[Any, float]] = {}
        """Waiters by identity, and since when."""
        self._frames: dict[int, _ComingFrame] = {}

    def deep(self, now_s: float, *, is_paused: bool) -> None:
        """Now and then."""
        if is_paused:
            self._waiting.clear()
            self._frames.clear()
            return
        for name, budget in self._all.items():
            for wrong in budget.wrong():
                raise Violated(f"I86: {self._machine.name}, {name}: {wrong}")
        self._check_users()
        self._check_waiting(now_s)
        connections = self._connections()
        self._check_frames(connections, now_s)
        self._check_unread(connections)

    # -- I86 -----------------------------------------------------------------------------------------------------------

    def _check_users(self) -> None:
        """Requests of strangers are not in the memory of users."""
        for name, budget in self.of_users.items() if self._is_secured else ():
            for stranger in filter(is_network, budget.parties):
                raise Violated(f"I86: {self._machine.name}, {name}: {stranger} has not logged in, and is counted there")

    def _check_unread(self, connections: Iterable[FrameConnection]) -> None:
        """Large answers that wait for their client are counted, with those to fetches."""
        unread = sum(each.unwritten for each in connections if each.unwritten > SMALL_BYTES)
        counted = sum(self._all[name].used for name in ("answers", "fetch answers", "answers before log-ins"))
        if counted < unread:
            raise Violated(f"I86: {self._machine.name}: clients have not read {unread} bytes, {counted} are counted")

    # -- I87 -----------------------------------------------------------------------------------------------------------

    def _check_waiting(self, now_s: float) -> None:
        before, self._waiting = self._waiting, {}
        for name, budget in self._all.items():
            for waiter, why in budget.waiters():
                since_s = before.get(id(waiter), (waiter, now_s))[1]
                self._waiting[id(waiter)] = waiter, since_s
                if not why and now_s - since_s > budget.waits_s_max:
                    party, waited = waiter.account.party, f"waits {now_s - since_s:.1f} s for {waiter.more} bytes"
                    where = f"{self._machine.name}, {name}: {party.name}, which has {party.used},"
                    raise Violated(f"I87: {where} {waited} of others: {budget!r}")

    def _check_frames(self, connections: Iterable[FrameConnection], now_s: float) -> None:
        """A frame counts what has come and at most as much again, and comes fast enough for what it may hold up."""
        before, self._frames = self._frames, {}
        stall_s, name = self._machine.config.connections_max_write_stall_ms / 1000, self._machine.name
        for frame in (each.frame for each in connections):
            if frame is None:
                continue
            counted, here = frame.lease.size, frame.here
            most = min(frame.size, here + min(max(here, FIRST_BYTES), STEP_BYTES))
            if not here <= counted <= most:
                raise Violated(f"I86: {name}: {counted} bytes are counted of {frame!r}, {most} at most may be")
            seen = self._frames[id(frame)] = before.get(id(frame)) or _ComingFrame(frame, now_s)
            seconds = seen.seconds(now_s) - SWEEP_SECONDS
            if seen.in_the_way_seconds(now_s) > WAIT_SECONDS:
                raise Violated(f"I87: {name}: {frame!r} is above the limits while others wait")
            if seconds > stall_s and here < seconds * max(BYTES_PER_S_MIN, frame.size / FRAME_SECONDS):
                raise Violated(f"I87: {name}: {frame!r} comes for {seconds:.1f} s")


class _ComingFrame:
    """One frame, and how long it may have come."""

    def __init__(self, frame: IncomingFrame, now_s: float) -> None:
        self._frame, self._since_s, self._seen_s = frame, now_s, now_s
        self._alone_s = now_s
        """When it last was in nobody's way."""

    def seconds(self, now_s: float) -> float:
        """The time that it is held does not count."""
        if self._frame.is_held:
            self._since_s += now_s - self._seen_s
        self._seen_s = now_s
        return now_s - self._since_s

    def in_the_way_seconds(self, now_s: float) -> float:
        """So long it has been above the limits while another party waits for room, or for its place."""
        lease = cast(WatchedLease, self._frame.lease)
        others = (waiter.account.party for waiter, why in lease.budget.waiters() if waiter.lease or not why)
        if not (lease.is_above and any(party is not lease.account.party for party in others)):
            self._alone_s = now_s
        return now_s - self._alone_s


def is_network(name: str) -> bool:
    """True of a party that has not logged in."""
    try:
        ipaddress.ip_network(name)
    except ValueError:
        return False
    return True
