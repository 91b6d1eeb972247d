"""Decides which connections are cut: those over `max.connections` and `max.connections.per.ip`, new ones above
`max.connection.creation.rate`, and those whose client does not read its answers. Pure: takes the open connections,
returns those to cut. Some limits are shared with other listeners (shared_connections.py).

Over a limit, the address with the most connections loses some: first those without a stream, and of these the youngest.
So a client from before an attack keeps its connection, and so does an address with few connections.

A client that does not read keeps its answers in this node's memory. gRPC can neither take back a message that is being
written nor reset its stream, so after `connections.max.write.stall.ms` the connection is cut, with its other streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from broker.connections.shared_connections import CreationRate, SharedWith
from penstock.metric_fields import counter, gauge, measured
from penstock.types import Endpoint

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
        self._since: dict[Endpoint, int] = {}
        self._looks = 0
        self._room = 0
        self._cut_over_limit = self._cut_stalled = self._cut_over_rate = 0

    def look(self, connected: Collection[Endpoint], with_streams: Collection[Endpoint], now_ms: int) -> set[Endpoint]:
        """The connections over a limit; each look is later than the one before."""
        self._looks += 1
        since = self._since
        self._since = {peer: since.get(peer, self._looks) for peer in connected}
        by_host: dict[str, list[Endpoint]] = {}
        for peer in self._since:
            by_host.setdefault(peer.host, []).append(peer)
        for peers in by_host.values():
            peers.sort(key=lambda peer: (peer not in with_streams, self._since[peer]))
        gone: set[Endpoint] = set()
        for peers in by_host.values():
            gone.update(peers[self._max_per_ip :])
            del peers[self._max_per_ip :]
        count = sum(map(len, by_host.values()))
        over = count - min(self._max, count if self._shared is None else self._shared.allowed(count))
        if over > 0:
            gone.update(_from_the_largest(by_host, over))
        self._cut_over_limit += len(gone)
        too_fast = self._above_rate(by_host, since.keys() | gone, now_ms)
        self._cut_over_rate += len(too_fast)
        gone |= too_fast
        for peer in gone:
            del self._since[peer]
        if self._shared is not None:
            self._shared.note(len(self._since))
        self._room = self._max_per_ip - max((len(peers) for peers in by_host.values()), default=0)
        return gone

    def room(self) -> int:
        """How many connections may come, from whatever address, before one may be over a limit."""
        shared = self._max if self._shared is None else self._shared.room()
        return max(min(self._room, self._max - len(self._since), shared), 0)

    def _above_rate(
        self, by_host: dict[str, list[Endpoint]], not_new: Collection[Endpoint], now_ms: int
    ) -> set[Endpoint]:
        """The new connections for which there is no room; the rest of the new ones is counted."""
        new = {host: [peer for peer in peers if peer not in not_new] for host, peers in by_host.items()}
        new = {host: peers for host, peers in new.items() if peers}
        count = sum(map(len, new.values()))
        room = max(min([count, *(rate.room(now_ms) for rate in self._rates)]), 0)
        for rate in self._rates:
            rate.came(room)
        return set(_from_the_largest(new, count - room)) if count > room else set()

    def stalled(self, writing_since_ms: Mapping[Endpoint, int], now_ms: int) -> set[Endpoint]:
        """The connections whose answer has been under way for too long."""
        gone = {peer for peer, since in writing_since_ms.items() if now_ms - since > self._write_stall_ms_max}
        self._cut_stalled += len(gone)
        return gone

    def statistics(self) -> ConnectionGuardStatistics:
        connections_max = self._max if self._shared is None else min(self._max, self._shared.connections_max)
        cut = (self._cut_over_limit, self._cut_over_rate, self._cut_stalled)
        return ConnectionGuardStatistics(len(self._since), connections_max, *cut)

    def __repr__(self) -> str:
        return f"ConnectionGuard({len(self._since)} of {self._max} connections)"


def _from_the_largest(by_host: dict[str, list[Endpoint]], count: int) -> list[Endpoint]:
    """The last `count` connections, taken from the addresses that have the most, until these have equally many."""
    sizes = sorted((len(peers) for peers in by_host.values()), reverse=True)
    level = next(level for level in range(sizes[0] + 1) if sum(max(0, size - level) for size in sizes) <= count)
    gone = [peer for peers in by_host.values() for peer in peers[level:]]
    left = Counter({host: min(level, len(peers)) for host, peers in by_host.items()})
    while len(gone) < count:
        host, size = left.most_common(1)[0]
        gone.append(by_host[host][size - 1])
        left[host] -= 1
    return gone
