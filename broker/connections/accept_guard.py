"""Decides whether a connection may stay when it is accepted: the limits of connection_guard.py, for listeners whose
sockets are in our hands. Pure: it is told of every connection that comes and goes.

A connection over a limit is refused at once. Where all the room is
taken, an address with few connections still gets in: the address with the most loses its youngest one. Some limits are
shared with other listeners (shared_connections.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.connections.connection_guard import ConnectionGuardStatistics
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import CreationRate, SharedWith
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
        self._by_host: dict[str, dict[Endpoint, None]] = {}
        """The oldest first."""
        self._open = 0
        self._over_limit = self._over_rate = self._stalled = self._strangers = self._unsecured = 0

    def came(self, peer: Endpoint, now_ms: int) -> Admission:
        """A connection was accepted. The one that has to go does not count any more."""
        of_host = self._by_host.get(peer.host, {})
        if len(of_host) >= self._limits.connections_max_per_ip:
            self._over_limit += 1
            return Admission(peer, f"max.connections.per.ip={self._limits.connections_max_per_ip}")
        if any(rate.room(now_ms) < 1 for rate in self._rates):
            self._over_rate += 1
            return Admission(peer, "max.connection.creation.rate")
        for rate in self._rates:
            rate.came(1)
        more = self._open + 1
        admission = STAYS
        if more > min(self._limits.connections_max, self._shared.allowed(more)):
            self._over_limit += 1
            largest = max(self._by_host.values(), key=len, default=of_host)
            is_refused = len(largest) <= len(of_host) + 1
            admission = Admission(peer if is_refused else next(reversed(largest)), "max.connections")
        if admission.cut is not None and admission.cut != peer:
            self.gone(admission.cut)
        if admission.cut != peer:
            self._by_host.setdefault(peer.host, {})[peer] = None
            self._change(1)
        return admission

    def gone(self, peer: Endpoint) -> None:
        """A connection has ended. Nothing happens if it did not count."""
        of_host = self._by_host.get(peer.host, {})
        if peer in of_host:
            del of_host[peer]
            if not of_host:
                del self._by_host[peer.host]
            self._change(-1)

    def _change(self, by: int) -> None:
        self._open += by
        self._shared.note(self._open)

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
        return ConnectionGuardStatistics(self._open, connections_max, *cut)

    def __repr__(self) -> str:
        return f"AcceptGuard({self._open} of {self._limits.connections_max} connections)"
