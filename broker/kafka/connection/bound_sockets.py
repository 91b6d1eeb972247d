"""The sockets of a listener: bound when the node starts, and listening when it is ready. An edge.

Between the two a client is refused, as by a node that does not run, and tries another one at once. (Kafka lets it
wait.) An address where another process listens cannot be bound. Two nodes that start at the same time can both bind it;
the second one learns of the other when it begins to listen. Not here: the connections (kafka_listener.py).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final

from penstock.types import Endpoint

BACKLOG: Final = 1_024
"""Connections that wait to be accepted: all clients of a node that has restarted come at once."""

MakeProtocol = Callable[[], asyncio.BaseProtocol]
"""Called for each connection that is accepted."""


class BoundSockets:
    """All addresses of one endpoint (`broker.kafka.connection.kafka_listener.BoundAddress`)."""

    def __init__(self, make_protocol: MakeProtocol, sockets: Sequence[socket.socket]) -> None:
        self._make_protocol, self._sockets = make_protocol, tuple(sockets)
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> None:
        """Accept connections from now on; OSError if another process listens there by now."""
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            bound.listen(BACKLOG)  # uvloop would not tell of an error
            self._servers.append(await loop.create_server(self._make_protocol, sock=bound, backlog=BACKLOG))

    def close(self) -> None:
        """Accept no more; the connections stay."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()

    def __repr__(self) -> str:
        return f"BoundSockets({len(self._sockets)} addresses, listens: {bool(self._servers)})"


async def bind_on_loop(make_protocol: MakeProtocol, endpoint: Endpoint) -> BoundSockets:
    """The machine's network; OSError if the endpoint cannot be bound."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(*endpoint, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a restart waits for old connections
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it: a client may vanish
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return BoundSockets(make_protocol, sockets)
