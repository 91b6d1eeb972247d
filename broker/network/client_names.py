"""Counts the streams, requests and bytes of each client, by the `client_id` of its requests. A connection in Kafka's
protocol is one stream.

Clients choose their names and no one checks them, so a long name is cut, and only a limited number of names have counts
of their own. A name keeps its counts when its last stream has ended, until a new name needs the place; then they go. No
count takes over another one's past: a monitoring system would show all that a name ever had as an increase of the
others. A stream is counted from its first request on, under the name in that request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from broker.network.client_software import OTHERS, ClientSoftware
from penstock.metric_fields import counter, gauge

NAMES_MAX = 100
"""Names with counts of their own: each is some series in a monitoring system."""
NAME_CHARS_MAX = 64
UNNAMED = "(none)"


@dataclass(slots=True)
class ClientTraffic:
    """Open streams now; requests and bytes since the start of the node."""

    name: str
    streams: int = gauge(
        "penstock_client_streams",
        "Open produce and fetch streams, and connections in Kafka's protocol, by the client_id of their requests; "
        f"beyond {NAMES_MAX} names, together.",
        default=0,
    )
    requests: int = counter(
        "penstock_client_requests", "Requests of these streams and connections by client_id.", default=0
    )
    bytes_in: int = counter("penstock_client_bytes_in", "Bytes of these requests by client_id.", default=0)
    bytes_out: int = counter("penstock_client_bytes_out", "Bytes of the answers to them by client_id.", default=0)

    def count_in(self, size_bytes: int) -> None:
        """A request has come."""
        self.requests += 1
        self.bytes_in += size_bytes


class ClientNames:
    """The names at the clients' listener. Changed on the event loop."""

    def __init__(self) -> None:
        self.software = ClientSoftware()
        self._others = ClientTraffic(OTHERS)
        self._clients: dict[str, ClientTraffic] = {}

    def joined(self, client_id: str) -> ClientTraffic:
        """A stream has given its name. Where it is counted, for `left`."""
        name = client_id[:NAME_CHARS_MAX] or UNNAMED
        client = self._others if name == OTHERS else self._clients.get(name)
        if client is None:
            client = ClientTraffic(name) if len(self._clients) < NAMES_MAX or self._one_leaves() else self._others
            if client is not self._others:
                self._clients[name] = client
        client.streams += 1
        return client

    def left(self, client: ClientTraffic) -> None:
        """The stream has ended."""
        client.streams -= 1

    def _one_leaves(self) -> bool:
        """Makes room by the oldest name without a stream, if there is one."""
        gone = next((client for client in self._clients.values() if not client.streams), None)
        if gone is None:
            return False
        del self._clients[gone.name]
        return True

    def statistics(self) -> Sequence[ClientTraffic]:
        """A snapshot, the others last; may be called in any thread."""
        return [replace(client) for client in (*tuple(self._clients.values()), self._others)]

    def __repr__(self) -> str:
        return f"ClientNames({len(self._clients)} names)"
