"""The connections of one client, one for each address, and which brokers cannot be reached. Belongs to one event loop.

Not here: which address to ask (node_choice.py), and what was met at one address (client/wire/reachability.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.options.config import ConnectionConfig
from penstock.client.wire.authenticated_channel import AuthenticatedChannel
from penstock.client.wire.connection import Connection
from penstock.client.wire.reachability import Reachability
from penstock.client.wire.throttle import Throttle
from penstock.client.wire.tls_files import tls_of
from penstock.client.wire.transport import Channel, ClientTransport
from penstock.errors import ClientClosedError
from penstock.types import Endpoint

CLOSED = "this client is closed; make a new one"


class ClientConnections:
    """Made when they are first asked for, and closed together."""

    def __init__(
        self,
        transport: ClientTransport,
        bootstrap: tuple[Endpoint, ...],
        cache: MetadataCache,
        config: ConnectionConfig,
    ) -> None:
        """ConfigError for a file of the configuration that cannot be used."""
        self._transport = transport
        self._tls = tls_of(config.tls_options) if config.tls_options is not None else None
        self._login, self._login_timeout_ms = config.login, config.request_timeout_ms
        self._client_id = config.client_id
        self._bootstrap = bootstrap
        self._cache = cache
        self._made: dict[Endpoint, Connection] = {}
        self.closed = False

    def to(self, endpoint: Endpoint) -> Connection:
        """ClientClosedError once it is closed: nobody would close another connection."""
        if self.closed:
            raise ClientClosedError(CLOSED)
        found = self._made.get(endpoint)
        if found is None:
            throttle = Throttle(endpoint)
            found = self._made[endpoint] = Connection(
                self._channel(endpoint, throttle), endpoint, self._origin(endpoint), self._client_id, throttle
            )
        return found

    def _channel(self, endpoint: Endpoint, throttle: Throttle) -> Channel:
        channel = self._transport.connect(endpoint, self._tls, throttle.on_trailer)
        if self._login is None:
            return channel
        return AuthenticatedChannel(channel, endpoint, self._login, self._login_timeout_ms)

    def _origin(self, endpoint: Endpoint) -> str:
        """The broker that told the address; "" for one that the user gave."""
        if endpoint in self._bootstrap:
            return ""
        known = ", ".join(str(broker.node_id) for broker in self._cache.brokers if broker.endpoint == endpoint)
        name = f"broker {known}" if known else "a broker"
        return f"{name} advertises this address (advertised.listeners), and it was never reached from here"

    def unreachable(self) -> tuple[str, ...]:
        """The address of each broker in service that does not answer now, and why."""
        return tuple(reach.trouble for reach in self._reaches() if reach.trouble)

    def silence(self) -> str:
        """Says that nobody answers now: no broker in service, and no bootstrap address; "" while anybody does. Then
        what the metadata says of leaders may be out of date."""
        reaches = [*self._reaches()]
        reaches += [self._made[endpoint].reach for endpoint in self._bootstrap if endpoint in self._made]
        if not reaches or not all(reach.trouble for reach in reaches):
            return ""
        return f"no broker answers now ({reaches[0].trouble}); start the brokers, or mend the network"

    def throttled(self) -> tuple[str, ...]:
        """Each address whose broker wants no call of this client now, and until when."""
        return tuple(words for connection in tuple(self._made.values()) if (words := connection.throttle.wait_words))

    @property
    def count(self) -> int:
        """The addresses to which there is a connection now; may be asked in any thread."""
        return sum(connection.is_connected for connection in tuple(self._made.values()))

    def throttle_times_ms(self) -> tuple[int, int]:
        """The waits that brokers told, in all and at most after one call; may be called in any thread."""
        throttles = [connection.throttle for connection in tuple(self._made.values())]
        return sum(one.time_ms for one in throttles), max((one.time_max_ms for one in throttles), default=0)

    def are_foreign(self) -> bool:
        """True if no address that the brokers in service advertise was ever reached: waiting for them is in vain."""
        reaches = list(self._reaches())
        return bool(reaches) and all(reach.is_foreign for reach in reaches)

    def _reaches(self) -> Iterator[Reachability]:
        for broker in self._cache.brokers:
            if not broker.fenced:
                found = self._made.get(broker.endpoint)
                yield found.reach if found is not None else Reachability()

    async def close(self) -> None:
        self.closed = True
        made, self._made = list(self._made.values()), {}
        await asyncio.gather(*(connection.close() for connection in made), return_exceptions=True)

    def __repr__(self) -> str:
        return f"ClientConnections({len(self._made)})"
