"""Reads the messages of callers who have still to log in, and waits for few of them.

gRPC reads a message whole, and says nothing before its last byte. What may come before a log-in (SaslAuthenticate,
health checks, reflection) is some hundred bytes, which come together with their call. So a read that is not over in a
moment is watched: after `SECONDS_MAX` the call is refused. At most `WATCHED_MAX` are watched; one more takes the place
of the oldest of the network that has most (64 bits of IPv6), so nobody keeps others out.

Not here: which callers must prove an identity (callers.py), and the bytes that come meanwhile
(connections/byte_watch.py). One that has proved it is read from without a limit but gRPC's own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from penstock.addresses import network_of
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint

MOMENT_SECONDS: Final = 0.01
"""Also the time between two looks at whether somebody has logged in there by another call."""
SECONDS_MAX: Final = 10.0
WATCHED_MAX: Final = 16


class Reads(Protocol):
    """A call whose message is read when it is asked for (`grpc.aio.ServicerContext`)."""

    async def read(self) -> Any: ...


class EarlyReads:
    """The early reads of one listener."""

    def __init__(self, listener: str, is_known: Callable[[Endpoint], bool]) -> None:
        """`is_known` tells whether somebody has logged in by the connection with that far end, or nobody needs to."""
        self._listener, self._is_known = listener, is_known
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
        try:
            await self._wait(reading, ended, peer)
        finally:
            if self._watched.get(peer) is ended:
                del self._watched[peer]

    async def _wait(self, reading: asyncio.Future[Any], ended: asyncio.Future[None], peer: Endpoint) -> None:
        """Waits until the call has read its message; raises a refusal once it is not worth waiting for any more."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SECONDS_MAX
        while not reading.done():
            if self._is_known(peer):  # it has logged in meanwhile, by another call
                await reading
            elif ended.done():
                raise self._refusal("too many messages are being waited for")
            elif loop.time() >= until:
                raise self._refusal(f"a message has not come within {SECONDS_MAX:.0f} s")
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
        return f"EarlyReads({self._listener}, {len(self._watched)} watched)"


async def read_at_once(context: Reads, peer: Endpoint) -> Any:
    """Reads without a watch: the caller is known, or need not prove an identity."""
    return await context.read()
