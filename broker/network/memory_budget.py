"""Limits the bytes that one kind of data may take of the node's memory, and decides which waiting stream goes on next.

A budget has an account for every stream. Bytes are taken with a `Lease`, and given back when it is released. Limits,
from the inside out: a stream may have a share of the budget, the streams of one address half of it, and all of them the
whole. One lease may exceed an empty share, because a message larger than a share must get through.

A stream that finds no room waits, in order within its address; addresses take turns. A stream that waits for the budget
as a whole is not overtaken, or many small requests would keep a large one out for ever. A stream that waits for its own
address holds up no other address.

`take` counts bytes that are in memory already, so it never waits. It may exceed the budget, and then no other stream
gets room until enough is released. Pure, but for the callback of the stream whose turn it is. The doors read and build.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.metric_fields import counter, gauge, measured

HOST_SHARE = 2
"""Divides the budget: one address gets at most half of it, so the others always have the other half."""


class Lease:
    """Bytes of an account, in use until they are released."""

    __slots__ = ("_account", "size")

    def __init__(self, account: Account, size: int) -> None:
        self._account = account
        self.size = size

    def resize(self, size: int) -> None:
        """The bytes turned out to be `size`."""
        before, self.size = self.size, size
        self._account.budget.change(self._account, size - before)

    def release(self) -> None:
        """The bytes are gone; a second time does nothing."""
        if self.size:
            self.resize(0)


class Account:
    """The bytes in use by one stream. At most one `acquire` of it waits at a time."""

    __slots__ = ("budget", "host", "used", "waiter")

    def __init__(self, budget: MemoryBudget, host: _Host) -> None:
        self.budget = budget
        self.host = host
        self.used = 0
        self.waiter: _Waiter | None = None

    def take(self, size: int) -> Lease:
        """Count bytes that are in memory already."""
        self.budget.change(self, size)
        return Lease(self, size)

    def acquire(self, size: int, granted: Callable[[Lease], None]) -> Lease | None:
        """A lease now; or None, and `granted` is called with it when its turn has come."""
        if self.budget.has_room(self, size):
            return self.take(size)
        self.budget.wait(self, _Waiter(self, size, granted))
        return None

    def has_room(self, size: int, *, without: int = 0) -> bool:
        """True if this many bytes could be taken now, if the account had not `without` bytes of those that it has."""
        return self.budget.has_room(self, size, without)

    def room(self) -> int:
        """How much could be taken now."""
        return self.budget.room(self)

    def withdraw(self) -> None:
        """The `acquire` that waits, if there is one, is not wanted any more: it will not be granted."""
        self.budget.withdraw(self)

    def close(self) -> None:
        """The stream is gone; its leases may be released later."""
        self.budget.leave(self)


@dataclass(slots=True)
class _Waiter:
    account: Account
    size: int
    granted: Callable[[Lease], None]


class _Host:
    """The streams of one address."""

    __slots__ = ("name", "streams", "used", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.streams = 0
        self.used = 0
        self.waiting: deque[_Waiter] = deque()


@measured
class MemoryStatistics:
    """A budget now; `pauses` is since the node's start."""

    used_bytes: int = gauge(
        "penstock_memory_used_bytes", "Bytes of requests, of built answers and of fetch sessions in memory."
    )
    bytes_max: int = gauge(
        "penstock_memory_max_bytes",
        "Bytes of requests, of built answers and of fetch sessions that there may be in memory.",
    )
    waiting: int = gauge(
        "penstock_memory_waiting_streams", "Streams that wait for room before they are read or answered."
    )
    pauses: int = counter("penstock_memory_pauses", "How often a stream had to wait for room.")


class MemoryBudget:
    """One kind of data of a node. `stream_share` divides the budget."""

    def __init__(self, bytes_max: int, stream_share: int) -> None:
        self._max = bytes_max
        self._stream_max = bytes_max // stream_share
        self._host_max = bytes_max // HOST_SHARE
        self._used = self._pauses = self._waiting = 0
        self._hosts: dict[str, _Host] = {}
        self._turns: dict[str, _Host] = {}
        """Addresses with streams that wait, in the order of their turns."""
        self._is_awaited = False
        """True if the account whose turn it is waits for the budget as a whole."""
        self._is_granting = False

    def open(self, host_name: str) -> Account:
        """The account of a new stream from an address."""
        host = self._hosts.get(host_name)
        if host is None:
            host = self._hosts[host_name] = _Host(host_name)
        host.streams += 1
        return Account(self, host)

    def has_room(self, account: Account, size: int, without: int = 0) -> bool:
        """True if `size` more bytes are within all limits, and no other account is first."""
        return not self._is_awaited and not account.host.waiting and self._fits(account, size, without)

    def room(self, account: Account) -> int:
        """How much the account could take now."""
        left = (self._max - self._used, self._host_max - account.host.used, self._stream_max - account.used)
        return max(0, min(left))

    def _fits(self, account: Account, size: int, without: int) -> bool:
        more, host = size - without, account.host
        return (
            (self._used + more <= self._max or self._used == without)
            and (host.used + more <= self._host_max or host.used == without)
            and (account.used + more <= self._stream_max or account.used == without)
        )

    # -- changes -------------------------------------------------------------------------------------------------------

    def change(self, account: Account, by: int) -> None:
        """`by` bytes more, or fewer, are in use."""
        self._used += by
        account.used += by
        host = account.host
        host.used += by
        if by >= 0:
            return
        waiter = account.waiter
        if waiter is not None and self._stream_fits(waiter):
            account.waiter = None
            self._queue(waiter)
        if self._turns:
            self._grant()
        if not (host.used or host.streams):
            self._hosts.pop(host.name, None)

    def wait(self, account: Account, waiter: _Waiter) -> None:
        """Queue for room: behind the stream's own leases first, then behind its address."""
        self._pauses += 1
        self._waiting += 1
        if self._stream_fits(waiter):
            self._queue(waiter)
            self._grant()
        else:
            account.waiter = waiter

    def _stream_fits(self, waiter: _Waiter) -> bool:
        used = waiter.account.used
        return used + waiter.size <= self._stream_max or not used

    def _queue(self, waiter: _Waiter) -> None:
        host = waiter.account.host
        host.waiting.append(waiter)
        self._turns.setdefault(host.name, host)

    def _grant(self) -> None:
        """Give room to the waiting streams in their order, address by address, as long as there is any.

        A stream that is granted room may release some or wait again. That begins no second round: the present one
        meets it, so nothing is granted before `acquire` has returned.
        """
        if self._is_granting:
            return
        self._is_granting = True
        try:
            self._grant_in_turn()
        finally:
            self._is_granting = False

    def _grant_in_turn(self) -> None:
        self._is_awaited = False
        passed_over = 0
        while passed_over < len(self._turns):
            host = next(iter(self._turns.values()))
            waiter = host.waiting[0]
            if self._used and self._used + waiter.size > self._max:
                self._is_awaited = True  # no other stream takes the room that it waits for
                return
            del self._turns[host.name]
            if not host.used or host.used + waiter.size <= self._host_max:
                passed_over = 0
                host.waiting.popleft()
                self._waiting -= 1
                lease = waiter.account.take(waiter.size)
                if host.waiting:
                    self._turns[host.name] = host
                waiter.granted(lease)
            else:
                passed_over += 1
                self._turns[host.name] = host

    def leave(self, account: Account) -> None:
        """The account's stream is gone, and waits no more."""
        host = account.host
        host.streams -= 1
        self.withdraw(account)
        if not (host.used or host.streams):
            self._hosts.pop(host.name, None)

    def withdraw(self, account: Account) -> None:
        """The account waits no more."""
        host = account.host
        if account.waiter is not None:
            account.waiter = None
            self._waiting -= 1
        before = len(host.waiting)
        host.waiting = deque(waiter for waiter in host.waiting if waiter.account is not account)
        self._waiting -= before - len(host.waiting)
        if not host.waiting:
            self._turns.pop(host.name, None)
        self._grant()

    def statistics(self) -> MemoryStatistics:
        return MemoryStatistics(self._used, self._max, self._waiting, self._pauses)

    def __repr__(self) -> str:
        return f"MemoryBudget({self._used} of {self._max} bytes, {self._waiting} wait)"
