"""Decides which connections are cut: those over `max.connections` and `max.connections.per.ip`, and those whose client
does not read its answers. Pure: takes the open connections, returns those to cut.

Over a limit, the address with the most connections loses some: first those without a stream, and of these the youngest.
So a client from before an attack keeps its connection, and so does an address with few connections.

A client that does not read keeps its answers in this node's memory. gRPC can neither take back a message that is being
written nor reset its stream, so after `connections.max.write.stall.ms` the connection is cut, with its other streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from broker.network.accepted_sockets import Peer


@dataclass(frozen=True, slots=True)
class ConnectionGuardStatistics:
    """Connections open when last looked, the most there may be, and how many were cut, by the reason."""

    open: int
    connections_max: int
    cut_over_limit: int
    cut_stalled: int


class ConnectionGuard:
    """Remembers since when each connection is there."""

    def __init__(self, connections_max: int, connections_max_per_ip: int, write_stall_ms_max: int) -> None:
        self._max = connections_max
        self._max_per_ip = connections_max_per_ip
        self._write_stall_ms_max = write_stall_ms_max
        self._since: dict[Peer, int] = {}
        self._looks = 0
        self._cut_over_limit = self._cut_stalled = 0

    def look(self, connected: Collection[Peer], with_streams: Collection[Peer]) -> set[Peer]:
        """The connections over a limit."""
        self._looks += 1
        since = self._since
        self._since = {peer: since.get(peer, self._looks) for peer in connected}
        by_host: dict[str, list[Peer]] = {}
        for peer in self._since:
            by_host.setdefault(peer.host, []).append(peer)
        for peers in by_host.values():
            peers.sort(key=lambda peer: (peer not in with_streams, self._since[peer]))
        gone: set[Peer] = set()
        for peers in by_host.values():
            gone.update(peers[self._max_per_ip :])
            del peers[self._max_per_ip :]
        over = sum(map(len, by_host.values())) - self._max
        if over > 0:
            gone.update(_from_the_largest(by_host, over))
        self._cut_over_limit += len(gone)
        for peer in gone:
            del self._since[peer]
        return gone

    def stalled(self, writing_since_ms: Mapping[Peer, int], now_ms: int) -> set[Peer]:
        """The connections whose answer has been under way for too long."""
        gone = {peer for peer, since in writing_since_ms.items() if now_ms - since > self._write_stall_ms_max}
        self._cut_stalled += len(gone)
        return gone

    def statistics(self) -> ConnectionGuardStatistics:
        return ConnectionGuardStatistics(len(self._since), self._max, self._cut_over_limit, self._cut_stalled)

    def __repr__(self) -> str:
        return f"ConnectionGuard({len(self._since)} of {self._max} connections)"


def _from_the_largest(by_host: dict[str, list[Peer]], count: int) -> list[Peer]:
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
