"""Limits the streams of a node and of one network: `max.connections`, `max.connections.per.ip` (KIP-612's limits).

A network is an address of IPv4, or 64 bits of IPv6, of which one machine has as many addresses as it likes.

One gRPC connection may carry many streams, and each costs the node memory. So the limits hold twice: here for streams,
which are refused at once, and in connection_guard.py for connections, which are cut when it sees them.
"""

from __future__ import annotations

from penstock.addresses import network_of
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint


class StreamQuotas:
    """Counts by network; a stream over a limit is refused with a typed error."""

    def __init__(
        self,
        connections_max: int,
        connections_max_per_ip: int,
        all_streams: StreamQuotas | None = None,
        key: str = "max.connections",
    ) -> None:
        """The quotas of one listener; `all_streams` are those of all listeners together. `key` is its limit's."""
        self._key = key
        self._all_streams = all_streams
        self._max = connections_max
        self._max_per_ip = connections_max_per_ip
        self._by_network: dict[str, int] = {}
        self._by_peer: dict[Endpoint, int] = {}
        self.total = 0

    def connected(self, peer: Endpoint) -> None:
        """Count one more of that connection, or refuse it."""
        network = network_of(peer.host)
        if self.total >= self._max:
            raise ResourceExhaustedError(
                f"this node has {self._key}={self._max} streams open; close one, or raise the limit"
            )
        if self._by_network.get(network, 0) >= self._max_per_ip:
            raise ResourceExhaustedError(
                f"{network} has max.connections.per.ip={self._max_per_ip} streams open here; close one, or raise the "
                "limit"
            )
        if self._all_streams is not None:
            self._all_streams.connected(peer)
        self._by_network[network] = self._by_network.get(network, 0) + 1
        self._by_peer[peer] = self._by_peer.get(peer, 0) + 1
        self.total += 1

    def disconnected(self, peer: Endpoint) -> None:
        if self._all_streams is not None:
            self._all_streams.disconnected(peer)
        network = network_of(peer.host)
        left = self._by_network.get(network, 0) - 1
        self.total -= 1
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        if left > 0:
            self._by_network[network] = left
        else:
            self._by_network.pop(network, None)

    def peers(self) -> list[Endpoint]:
        """The far ends of the connections with a stream."""
        return list(self._by_peer)
