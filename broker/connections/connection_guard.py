"""Decides which connections are cut: those over `max.connections` and `max.connections.per.ip`, new ones above
`max.connection.creation.rate`, and those whose client does not read its answers. Pure: takes the open connections,
returns those to cut. Some limits are shared with other listeners (shared_connections.py).

Connections count by network: an address of IPv4, or 64 bits of IPv6, because one machine has as many addresses of IPv6
as it likes. A connection with a proven identity counts for its principal, and is cut last: it makes room for one
without only where those without have less than their quarter of `max.connections`.

Over a limit, the network with the most connections loses some, and of equals the youngest: first those without a
stream, and of these the one that came last. So a client from before an attack keeps its connection, and so does a
network with few connections.

A client that does not read keeps its answers in this node's memory. gRPC can neither take back a message that is being
written nor reset its stream, so after `connections.max.write.stall.ms` the connection is cut, with its other streams.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Final, TypeAlias

from broker.connections.shared_connections import CreationRate, ListenerConnections, SharedWith, allowed_here
from penstock.addresses import network_of
from penstock.metric_fields import counter, gauge, measured
from penstock.types import Endpoint

NOBODY: Final[Mapping[Endpoint, str]] = {}
_Worth: TypeAlias = tuple[bool, int]

_CUT = ("penstock_tcp_connections_cut", "Connections that were cut, by the listener and the reason.")


@measured
class ConnectionGuardStatistics:
    """The connections of one listener; those cut are counted since the start."""

    open: int = gauge("penstock_tcp_connections", "TCP connections at a listener of the broker, when last looked.")
    connections_max: int = gauge(
        "penstock_tcp_connections_max",
        "TCP connections that there may be at a listener of the broker; those for clients share this number.",
    )
    cut_over_limit: int = counter(*_CUT, reason="limit")
    cut_over_rate: int = counter(*_CUT, reason="rate")
    cut_stalled: int = counter(*_CUT, reason="stalled")
    closed_for_bytes: int = counter(*_CUT, reason="protocol", default=0)
    closed_for_handshake: int = counter(*_CUT, reason="tls", default=0)


class ConnectionGuard:
    """Remembers since when each connection is there."""

    def __init__(
        self,
        connections_max: int,
        connections_max_per_ip: int,
        write_stall_ms_max: int,
        rate: CreationRate | None = None,
        shared: SharedWith | None = None,
    ) -> None:
        """`rate` is of its listener alone; None: no limit."""
        self._shared = shared
        self._rates = [limit for limit in (rate, shared.rate if shared is not None else None) if limit is not None]
        self._max = connections_max
        self._max_per_ip = connections_max_per_ip
        self._write_stall_ms_max = write_stall_ms_max
        self._came: dict[Endpoint, int] = {}
        """The connections of the last look, each with its place in the order in which they were seen first."""
        self._numbers = count()
        self._room = 0
        self._cut_over_limit = self._cut_stalled = self._cut_over_rate = self._cut_for_bytes = 0

    def look(
        self,
        connected: Collection[Endpoint],
        with_streams: Collection[Endpoint],
        now_ms: int,
        proven: Mapping[Endpoint, str] = NOBODY,
    ) -> set[Endpoint]:
        """The connections over a limit; each look is later than the one before. `proven`: the principals that have
        proved who they are, by their connections."""
        before = self._came
        self._came = {peer: before[peer] if peer in before else next(self._numbers) for peer in connected}

        def worth(peer: Endpoint) -> _Worth:
            """The smaller, the longer it stays."""
            return peer not in with_streams, self._came[peer]

        gone = self._above_limit_of_networks(worth, proven)
        kept = self._came.keys() - gone
        gone |= self._above_limit_of_all(kept, worth, proven)
        self._cut_over_limit += len(gone)
        new = {peer for peer in kept - gone if peer not in before}
        too_fast = self._above_rate(new, worth, proven, now_ms)
        self._cut_over_rate += len(too_fast)
        gone |= too_fast
        for peer in gone:
            del self._came[peer]
        if self._shared is not None:
            self._shared.note(_count(self._came, proven))
        largest = max(map(len, _by(self._came, _network, worth)), default=0)
        self._room = self._max_per_ip - largest
        return gone

    def _above_limit_of_networks(
        self, worth: Callable[[Endpoint], _Worth], proven: Mapping[Endpoint, str]
    ) -> set[Endpoint]:
        """The connections over `max.connections.per.ip`."""
        proven_first = _by(self._came, _network, lambda peer: (peer not in proven, worth(peer)))
        return {peer for peers in proven_first for peer in peers[self._max_per_ip :]}

    def _above_limit_of_all(
        self, kept: Collection[Endpoint], worth: Callable[[Endpoint], _Worth], proven: Mapping[Endpoint, str]
    ) -> set[Endpoint]:
        """The connections over `max.connections`."""
        own = _count(kept, proven)
        allowed = allowed_here(own, self._max, self._shared)
        others, parties = _split(kept, proven)
        gone = _from_the_largest(_by(others, _network, worth), own.others - allowed.others, worth)
        return gone | _from_the_largest(_by(parties, proven.__getitem__, worth), own.proven - allowed.proven, worth)

    def room(self) -> int:
        """How many connections may come, from whatever address, before one may be over a limit."""
        shared = self._max if self._shared is None else self._shared.room()
        return max(min(self._room, self._max - len(self._came), shared), 0)

    def _above_rate(
        self,
        new: Collection[Endpoint],
        worth: Callable[[Endpoint], _Worth],
        proven: Mapping[Endpoint, str],
        now_ms: int,
    ) -> set[Endpoint]:
        """The new connections for which there is no room; the rest of the new ones is counted."""
        room = max(min([len(new), *(rate.room(now_ms) for rate in self._rates)]), 0)
        for rate in self._rates:
            rate.came(room)
        over = len(new) - room
        others, parties = _split(new, proven)
        gone = _from_the_largest(_by(others, _network, worth), min(over, len(others)), worth)
        return gone | _from_the_largest(_by(parties, proven.__getitem__, worth), over - len(gone), worth)

    def stalled(self, writing_since_ms: Mapping[Endpoint, int], now_ms: int) -> set[Endpoint]:
        """The connections whose answer has been under way for too long."""
        gone = {peer for peer, since in writing_since_ms.items() if now_ms - since > self._write_stall_ms_max}
        self._cut_stalled += len(gone)
        return gone

    def cut_for_bytes(self, count: int) -> None:
        """Counts connections that were cut for what they sent (byte_watch.py)."""
        self._cut_for_bytes += count

    def statistics(self) -> ConnectionGuardStatistics:
        connections_max = self._max if self._shared is None else min(self._max, self._shared.connections_max)
        cut = (self._cut_over_limit, self._cut_over_rate, self._cut_stalled, self._cut_for_bytes)
        return ConnectionGuardStatistics(len(self._came), connections_max, *cut)

    def __repr__(self) -> str:
        return f"ConnectionGuard({len(self._came)} of {self._max} connections)"


def _network(peer: Endpoint) -> str:
    return network_of(peer.host)


def _split(peers: Iterable[Endpoint], proven: Mapping[Endpoint, str]) -> tuple[list[Endpoint], list[Endpoint]]:
    """Connections by which nobody has proved an identity, and the others."""
    others: list[Endpoint] = []
    parties: list[Endpoint] = []
    for peer in peers:
        (parties if peer in proven else others).append(peer)
    return others, parties


def _count(peers: Collection[Endpoint], proven: Mapping[Endpoint, str]) -> ListenerConnections:
    of_proven = sum(peer in proven for peer in peers)
    return ListenerConnections(len(peers) - of_proven, of_proven)


def _by(
    peers: Iterable[Endpoint], owner: Callable[[Endpoint], str], worth: Callable[[Endpoint], object]
) -> Collection[list[Endpoint]]:
    """The connections of each owner, in the order in which they stay."""
    found: dict[str, list[Endpoint]] = {}
    for peer in peers:
        found.setdefault(owner(peer), []).append(peer)
    for of_owner in found.values():
        of_owner.sort(key=worth)  # type: ignore[arg-type]
    return found.values()


def _from_the_largest(
    owners: Collection[list[Endpoint]], over: int, worth: Callable[[Endpoint], _Worth]
) -> set[Endpoint]:
    """The last `over` connections, taken from the owners that have the most, until these have equally many. Of owners
    with as many, the one whose last connection is worth least loses it first."""
    if over <= 0:
        return set()
    sizes = [len(peers) for peers in owners]
    levels = range(max(sizes) + 1)
    level = bisect_left(levels, True, key=lambda level: sum(max(0, size - level) for size in sizes) <= over)
    gone = {peer for peers in owners for peer in peers[level:]}
    next_ones = [peers[level - 1] for peers in owners if len(peers) >= level]
    next_ones.sort(key=worth, reverse=True)
    gone.update(next_ones[: over - len(gone)])
    return gone
