"""Counts the streams, requests and bytes of each client, by the `client_id` of its requests. A connection in Kafka's
protocol is one stream.

Clients choose their names and no one checks them, so a long name is cut, and only a limited number of names have counts
of their own, shared by the parties that give them (name_places.py). A name keeps its counts when its last stream has
ended, until a new name needs the place; then they go. No count takes over another one's past: a monitoring system would
show all that a name ever had as an increase of the others. A stream is counted from its first request on, under the
name in that request. At a listener with SASL a connection is one of the others before it has logged in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from broker.network.client_software import OTHERS, ClientSoftware
from broker.network.name_places import NamePlaces
from broker.network.parties import party_of
from broker.network.request_channel import ANONYMOUS, Caller
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge

NAMES_MAX = 200
"""Names with counts of their own: each is some series in a monitoring system. One party alone has half of them."""
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

    def __init__(self, with_log_in: Collection[str] = ()) -> None:
        """`with_log_in`: the listeners with SASL."""
        self._with_log_in = with_log_in
        self.software = ClientSoftware(self.is_stranger)
        self._others = ClientTraffic(OTHERS)
        self._clients: dict[str, ClientTraffic] = {}
        self._places: NamePlaces[str] = NamePlaces(NAMES_MAX, lambda name: not self._clients[name].streams)

    def is_stranger(self, caller: Caller) -> bool:
        """True if the caller has still to log in."""
        return caller.principal == ANONYMOUS and caller.listener in self._with_log_in

    def joined(self, client_id: str, caller: Caller) -> ClientTraffic:
        """A stream has given its name. Where it is counted, for `left`."""
        client = self._of(client_id[:NAME_CHARS_MAX] or UNNAMED, caller)
        client.streams += 1
        return client

    def _of(self, name: str, caller: Caller) -> ClientTraffic:
        if name == OTHERS or self.is_stranger(caller):
            return self._others
        if name in self._clients:
            return self._clients[name]
        if not self._places.take(name, party_of(caller), self._clients.__delitem__):
            return self._others
        made = self._clients[name] = ClientTraffic(name)
        return made

    def left(self, client: ClientTraffic) -> None:
        """The stream has ended."""
        client.streams -= 1

    def statistics(self) -> Sequence[ClientTraffic]:
        """A snapshot, the others last; may be called in any thread."""
        return [replace(client) for client in (*tuple(self._clients.values()), self._others)]

    def __repr__(self) -> str:
        return f"ClientNames({len(self._clients)} names)"
