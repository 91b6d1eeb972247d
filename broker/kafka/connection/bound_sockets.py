"""The sockets of a listener: bound when the node starts, and listening when it is ready. An edge.

Between the two a client is refused, as by a node that does not run, and tries another one at once. (Kafka lets it
wait.) An address where another process listens cannot be bound. Two nodes that start at the same time can both bind it;
the second one learns of the other when it begins to listen. Not here: the connections (kafka_listener.py).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.addresses import as_connected
from penstock.types import Endpoint

BACKLOG: Final = 1_024
"""Connections that wait to be accepted: all clients of a node that has restarted come at once."""

MakeProtocol = Callable[[], asyncio.BaseProtocol]
"""Called for each connection that is accepted."""
Accept = Callable[[socket.socket, Any], None]
"""Called for each socket that is accepted, with its address, where a handshake comes before a connection."""
NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NO_ROOM_SECONDS: Final = 1.0


class BoundSockets:
    """All addresses of one endpoint (`broker.kafka.connection.kafka_listener.BoundAddress`)."""

    def __init__(
        self, make_protocol: MakeProtocol, sockets: Sequence[socket.socket], accept: Accept | None = None
    ) -> None:
        self._make_protocol, self._sockets, self._accept = make_protocol, tuple(sockets), accept
        self._servers: list[asyncio.Server] = []
        self._accepting: list[asyncio.Task[None]] = []

    async def listen(self) -> None:
        """Accept connections from now on; OSError if another process listens there by now."""
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            bound.listen(BACKLOG)  # uvloop would not tell of an error
            if self._accept is not None:
                bound.setblocking(False)
                self._accepting.append(loop.create_task(self._accepts(bound, self._accept)))
                continue
            self._servers.append(await loop.create_server(self._make_protocol, sock=bound, backlog=BACKLOG))

    async def _accepts(self, bound: socket.socket, accept: Accept) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(bound)
            except OSError as error:
                if error.errno in NO_ROOM:  # the process has no descriptor left
                    await asyncio.sleep(NO_ROOM_SECONDS)
                continue  # else: it was reset before it was accepted
            accepted.setblocking(False)
            accept(accepted, address)

    def close(self) -> None:
        """Accept no more; the connections stay."""
        for accepting in self._accepting:
            accepting.cancel()
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()

    def __repr__(self) -> str:
        return f"BoundSockets({len(self._sockets)} addresses, listens: {bool(self._servers or self._accepting)})"


def endpoint_of(address: Any) -> Endpoint:
    """The far end of a connection, from its socket's address."""
    name = address or ("", 0)
    return Endpoint(as_connected(str(name[0])), int(name[1]))


async def bind_on_loop(make_protocol: MakeProtocol, endpoint: Endpoint, accept: Accept | None = None) -> BoundSockets:
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
    return BoundSockets(make_protocol, sockets, accept)
