"""Decides which connections to `metrics.listener` may stay, and when each is served. Pure.

The pages have no log-in, so any client that reaches the port can ask without end. A network (an address of IPv4, 64
bits of IPv6) has OF_NETWORK_MAX connections and a turn every NETWORK_TURN_MS; all networks together have
CONNECTIONS_MAX, and a turn every TURN_MS. A connection that is cut leaves its turn unused, so no one waits for more
turns than there are places. A network with few connections takes the place of one with many, so a probe is answered
beside a flood from elsewhere. Not here: sockets and deadlines (page_server.py).
"""

from __future__ import annotations

from typing import Final

from broker.connections.accept_guard import AcceptGuard
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import CreationRate, SharedConnections
from penstock.addresses import network_of
from penstock.config_keys import INT32_MAX
from penstock.types import Endpoint

CONNECTIONS_MAX: Final = 128
OF_NETWORK_MAX: Final = 32
"""A few systems scrape a node, and probe it, every few seconds."""
TURN_MS: Final = 5
NETWORK_TURN_MS: Final = 20
NETWORKS_KEPT: Final = 1_024
_NO_LIMIT: Final = 1 << 40


class PageTurns:
    """The connections of the listener. Times are monotonic."""

    def __init__(self, connections_max: int = CONNECTIONS_MAX) -> None:
        self._connections_max = connections_max
        limits = ListenerLimits(
            message_bytes_max=_NO_LIMIT,
            request_bytes_max=_NO_LIMIT,
            idle_ms_max=_NO_LIMIT,
            connections_max=connections_max,
            connections_max_per_ip=OF_NETWORK_MAX,
            write_stall_ms_max=_NO_LIMIT,
        )
        shared = SharedConnections(connections_max, CreationRate(INT32_MAX))
        self._guard = AcceptGuard(limits, shared.of("METRICS"))
        self._next_of: dict[str, int] = {}
        """The time at which a network has its next turn. A network that has its turn now is left out at times."""
        self._next_ms = 0

    def came(self, peer: Endpoint, now_ms: int) -> Endpoint | None:
        """The connection that has to go for the one that was accepted: that one, another one, or none."""
        return self._guard.came(peer, now_ms).cut

    def gone(self, peer: Endpoint) -> None:
        """A connection has ended."""
        self._guard.gone(peer)

    def wait_of_network_ms(self, host: str, now_ms: int) -> int:
        """How long one more connection of that network waits."""
        if len(self._next_of) >= NETWORKS_KEPT:
            self._next_of = {network: at_ms for network, at_ms in self._next_of.items() if at_ms > now_ms}
        network = network_of(host)
        at_ms = min(max(now_ms, self._next_of.get(network, 0)), now_ms + OF_NETWORK_MAX * NETWORK_TURN_MS)
        self._next_of[network] = at_ms + NETWORK_TURN_MS
        return at_ms - now_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long a connection waits then, whose network has its turn."""
        at_ms = min(max(now_ms, self._next_ms), now_ms + self._connections_max * TURN_MS)
        self._next_ms = at_ms + TURN_MS
        return at_ms - now_ms

    def __repr__(self) -> str:
        return f"PageTurns({self._guard!r})"
