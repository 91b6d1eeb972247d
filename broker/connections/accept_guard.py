"""Decides whether a connection may stay when it is accepted: the limits of connection_guard.py, for listeners whose
sockets are in our hands. Pure: it is told of every connection that comes, proves an identity, and goes.

A connection over a limit is refused at once. Where all the room is taken, a network with few connections still gets in:
the network with the most loses its youngest one, and of equals the oldest stays. A connection by which somebody has
proved an identity makes room only where those that have not have less than their quarter; then the principal with the
most loses its youngest. Some limits are shared with other listeners (shared_connections.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.connections.connection_guard import ConnectionGuardStatistics
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import CreationRate, ListenerConnections, SharedWith, allowed_here
from penstock.addresses import network_of
from penstock.types import Endpoint


class Admission(NamedTuple):
    """The answer to a connection that has come: which one has to go, it or another, and which limit says so."""

    cut: Endpoint | None = None
    limit: str = ""


STAYS = Admission()


class AcceptGuard:
    """The connections of one listener."""

    def __init__(self, limits: ListenerLimits, shared: SharedWith) -> None:
        self._limits, self._shared = limits, shared
        self._rates = (CreationRate(limits.creation_rate_max), shared.rate)
        self._networks: Counter[str] = Counter()
        """The connections of each network, proven or not."""
        self._others = _Owners()
        """The connections by which nobody has proved an identity, by network."""
        self._proven = _Owners()
        """The others, by principal."""
        self._principal_of: dict[Endpoint, str] = {}
        self._over_limit = self._over_rate = self._stalled = self._strangers = self._unsecured = 0

    def came(self, peer: Endpoint, now_ms: int) -> Admission:
        """Decides about a connection that was accepted. The connection that has to go does not count any more."""
        network = network_of(peer.host)
        if self._networks[network] >= self._limits.connections_max_per_ip:
            self._over_limit += 1
            return Admission(peer, f"max.connections.per.ip={self._limits.connections_max_per_ip}")
        if any(rate.room(now_ms) < 1 for rate in self._rates):
            self._over_rate += 1
            return Admission(peer, "max.connection.creation.rate")
        for rate in self._rates:
            rate.came(1)
        admission = STAYS
        own = self._count()
        more = own._replace(others=own.others + 1)
        allowed = allowed_here(more, self._limits.connections_max, self._shared)
        if more.others > allowed.others:
            admission = Admission(self._least_of_others(peer, network), "max.connections")
        elif more.proven > allowed.proven:
            admission = Admission(next(reversed(self._proven.largest())), "max.connections")
        if admission.cut is not None:
            self._over_limit += 1
            self.gone(admission.cut)
        if admission.cut != peer:
            self._networks[network] += 1
            self._others.add(network, peer)
        self._shared.note(self._count())
        return admission

    def _least_of_others(self, peer: Endpoint, network: str) -> Endpoint:
        """The youngest of the network with the most; the newcomer, unless its network has less than that."""
        own, largest = self._others.of(network), self._others.largest()
        return peer if len(largest) <= len(own) + 1 else next(reversed(largest))

    def proved(self, peer: Endpoint, principal: str) -> None:
        """The caller of a connection has proved to be that principal."""
        network = network_of(peer.host)
        if peer in self._others.of(network):
            self._others.remove(network, peer)
            self._principal_of[peer] = principal
            self._proven.add(principal, peer)
            self._shared.note(self._count())

    def gone(self, peer: Endpoint) -> None:
        """A connection has ended. Nothing happens if it did not count."""
        network, principal = network_of(peer.host), self._principal_of.pop(peer, None)
        if principal is not None:
            self._proven.remove(principal, peer)
        elif peer in self._others.of(network):
            self._others.remove(network, peer)
        else:
            return
        self._networks[network] -= 1
        if not self._networks[network]:
            del self._networks[network]
        self._shared.note(self._count())

    def _count(self) -> ListenerConnections:
        return ListenerConnections(self._others.count, self._proven.count)

    def stalled(self, writing_since_ms: Mapping[Endpoint, int], now_ms: int) -> set[Endpoint]:
        """The connections whose answer has been under way for too long, and moved by no byte."""
        gone = {peer for peer, since in writing_since_ms.items() if now_ms - since > self._limits.write_stall_ms_max}
        self._stalled += len(gone)
        return gone

    def spoke_strangely(self) -> None:
        """A connection was closed for what it sent."""
        self._strangers += 1

    def had_no_handshake(self) -> None:
        """A connection was closed because its TLS handshake failed."""
        self._unsecured += 1

    def statistics(self) -> ConnectionGuardStatistics:
        connections_max = min(self._limits.connections_max, self._shared.connections_max)
        cut = self._over_limit, self._over_rate, self._stalled, self._strangers, self._unsecured
        return ConnectionGuardStatistics(self._count().total, connections_max, *cut)

    def __repr__(self) -> str:
        return f"AcceptGuard({self._count().total} of {self._limits.connections_max} connections)"


_NO_PEERS: Final[dict[Endpoint, None]] = {}


class _Owners:
    """Connections by their owners, each one's oldest first. A flood of connections may come from thousands of networks,
    so to find the owner of most takes no look at all of them."""

    def __init__(self) -> None:
        self.count = self._most = 0
        self._of: dict[str, dict[Endpoint, None]] = {}
        self._by_size: dict[int, dict[str, None]] = {}
        """The owners of as many connections."""

    def of(self, owner: str) -> Mapping[Endpoint, None]:
        return self._of.get(owner, _NO_PEERS)

    def largest(self) -> dict[Endpoint, None]:
        """The connections of an owner that has most."""
        return self._of[next(iter(self._by_size[self._most]))] if self._most else _NO_PEERS

    def add(self, owner: str, peer: Endpoint) -> None:
        peers = self._of.setdefault(owner, {})
        before = len(peers)
        peers[peer] = None
        self._resized(owner, before, len(peers))

    def remove(self, owner: str, peer: Endpoint) -> None:
        peers = self._of[owner]
        before = len(peers)
        del peers[peer]
        if not peers:
            del self._of[owner]
        self._resized(owner, before, len(peers))

    def _resized(self, owner: str, before: int, now: int) -> None:
        if now == before:
            return
        self.count += now - before
        if now:
            self._by_size.setdefault(now, {})[owner] = None
            self._most = max(self._most, now)
        if before:
            del self._by_size[before][owner]
            if not self._by_size[before]:
                del self._by_size[before]
                self._most = now if self._most == before else self._most
