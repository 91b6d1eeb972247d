"""Reads the messages of callers who have still to log in, and cuts a connection that sends too much.

gRPC reads a message whole, and says nothing before its last byte. What may come before a log-in (SaslAuthenticate,
health checks, reflection) is some hundred bytes, which come together with their call. So a read that is not over in a
moment is watched: the kernel counts the bytes that its connection has received. After `BYTES_MAX` the connection is
cut, after `SECONDS_MAX` the call is refused. At most `WATCHED_MAX` are watched; one more takes the place of the oldest
of the network that has most (64 bits of IPv6), so nobody keeps others out. On a system other than Linux only seconds
are counted.

Not here: which callers must prove an identity (callers.py). A caller that has is read from without a limit but gRPC's
own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from metadata.addresses import network_of
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint

MOMENT_SECONDS: Final = 0.01
"""Also the time between two looks at a connection: what can come in it comes above the limit."""
BYTES_MAX: Final = 1 << 18
"""Other calls of the connection count, which are refused unread: each of them leaves 64 KiB behind."""
SECONDS_MAX: Final = 10.0
WATCHED_MAX: Final = 16


class Reads(Protocol):
    """A call whose message is read when it is asked for (`grpc.aio.ServicerContext`)."""

    async def read(self) -> Any: ...


class MeteredConnection(Protocol):
    """A connection of a client, as the kernel knows it."""

    def received_bytes(self) -> int:
        """The bytes received since the connection began."""
        ...

    def cut(self) -> None: ...

    def close(self) -> None:
        """It is not looked at any more, and lives on."""
        ...


class Lobby:
    """The lobby of one listener."""

    def __init__(
        self,
        listener: str,
        find: Callable[[Endpoint], Awaitable[MeteredConnection | None]],
        is_known: Callable[[Endpoint], bool],
    ) -> None:
        """`find` finds the connection with that far end; `is_known` tells whether somebody has logged in by it, or
        nobody needs to."""
        self._listener, self._find, self._is_known = listener, find, is_known
        self._watched: dict[Endpoint, asyncio.Future[None]] = {}
        """The connections that are watched, the oldest first, each with what ends its watch."""

    async def read(self, context: Reads, peer: Endpoint) -> Any:
        """The next message of a call, or EOF; ResourceExhaustedError for one that is too long in coming."""
        if self._is_known(peer):
            return await context.read()
        reading = asyncio.ensure_future(context.read())
        try:
            if not (await asyncio.wait((reading,), timeout=MOMENT_SECONDS))[0]:
                await self._watch(reading, peer)
            return reading.result()
        finally:
            reading.cancel()

    async def _watch(self, reading: asyncio.Future[Any], peer: Endpoint) -> None:
        if peer in self._watched:
            raise self._refusal("a message of this connection is being waited for already")
        self._make_room()
        ended = self._watched[peer] = asyncio.get_running_loop().create_future()
        connection = None
        try:
            connection = await self._find(peer)
            await self._wait(reading, ended, peer, connection)
        finally:
            if connection is not None:
                connection.close()
            if self._watched.get(peer) is ended:
                del self._watched[peer]

    async def _wait(
        self,
        reading: asyncio.Future[Any],
        ended: asyncio.Future[None],
        peer: Endpoint,
        connection: MeteredConnection | None,
    ) -> None:
        """Waits until the call has read its message; raises a refusal once it is not worth waiting for any more."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SECONDS_MAX
        allowed = BYTES_MAX + (connection.received_bytes() if connection is not None else 0)
        while not reading.done():
            if self._is_known(peer):  # it has logged in meanwhile, by another call
                await reading
            elif ended.done():
                raise self._refusal("too many messages are being waited for")
            elif loop.time() >= until:
                raise self._refusal(f"a message has not come within {SECONDS_MAX:.0f} s")
            elif connection is not None and connection.received_bytes() > allowed:
                connection.cut()
                raise self._refusal(f"more than {BYTES_MAX} bytes have come")
            else:
                await asyncio.wait((reading, ended), timeout=MOMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    def _make_room(self) -> None:
        if len(self._watched) < WATCHED_MAX:
            return
        most = Counter(network_of(peer.host) for peer in self._watched).most_common(1)[0][0]
        oldest = next(peer for peer in self._watched if network_of(peer.host) == most)
        self._watched.pop(oldest).set_result(None)

    def _refusal(self, why: str) -> ResourceExhaustedError:
        return ResourceExhaustedError(f"{self._listener}: {why}, and nobody has logged in there; try again")

    def __repr__(self) -> str:
        return f"Lobby({self._listener}, {len(self._watched)} watched)"


async def read_at_once(context: Reads, peer: Endpoint) -> Any:
    """Reads at once, for a server without a lobby, where no caller has to prove an identity."""
    return await context.read()
