"""The client's transport in a forked child of a process that has used gRPC: the same calls, in Python alone.

gRPC's library keeps threads and files that a fork does not carry over, or shares with the parent; used in a child it
hangs, and its shared files stall the parent. So a child's clients speak gRPC through http2_connection.py. It costs more
processor time for each call and byte than the library does (docs/forking.md has figures), and is used nowhere else.

A channel has one connection at a time, made when it is needed. Not here: which transport a process uses (forks.py).
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from penstock.client.wire.http2_connection import Http2Connection
from penstock.client.wire.http2_stream import Http2Stream
from penstock.client.wire.shared_tasks import shared
from penstock.client.wire.statuses import call_cancelled, closed_by_broker, error_of_status
from penstock.client.wire.tls_files import Tls
from penstock.client.wire.transport import Metadata, OnTrailer, unheard
from penstock.errors import ApiError
from penstock.types import Endpoint

CONNECT_SECONDS = 3.0
"""The time limit for connecting to each address of a host."""


class Http2ByteStream:
    """One bidirectional stream."""

    __slots__ = ("_endpoint", "_is_tls", "_opening")

    def __init__(self, opening: asyncio.Task[Http2Stream], endpoint: Endpoint, is_tls: bool) -> None:
        self._endpoint = endpoint
        self._is_tls = is_tls
        self._opening = opening

    async def write(self, message: bytes) -> None:
        stream = await shared(self._opening, self._endpoint)
        if not await stream.write(message):
            raise _error_of(stream, self._endpoint, self._is_tls)

    async def read(self) -> bytes:
        stream = await shared(self._opening, self._endpoint)
        message = await stream.read()
        if message is None:
            raise _error_of(stream, self._endpoint, self._is_tls)
        return message

    def cancel(self) -> None:
        if not self._opening.done():
            self._opening.cancel()
        elif not self._opening.cancelled() and self._opening.exception() is None:
            self._opening.result().cancel()

    def __repr__(self) -> str:
        return f"Http2ByteStream({self._endpoint})"


class Http2Channel:
    """The way to one address."""

    def __init__(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._on_trailer = on_trailer
        self._is_tls = tls is not None
        self._connection: Http2Connection | None = None
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._opening: set[asyncio.Task[Http2Stream]] = set()
        self._closed = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.ended

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        stream: Http2Stream | None = None
        answer: bytes | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                stream = (await self._connected()).open(method, timeout_ms, metadata)
                await stream.write(request, is_last=True)
                answer = await stream.read()
                while stream.ended is None:
                    await stream.read()
        except TimeoutError:
            details = f"no answer within {timeout_ms} ms"
            raise error_of_status("DEADLINE_EXCEEDED", details, None, self._endpoint) from None
        finally:
            if stream is not None:
                stream.cancel()
        if stream.ended is not None:
            self._on_trailer(stream.ended.trailer)
        if answer is None or stream.ended.status != "OK":
            raise _error_of(stream, self._endpoint, self._is_tls)
        return answer

    def open_stream(self, method: str, metadata: Metadata = ()) -> Http2ByteStream:
        opening = asyncio.ensure_future(self._open(method, metadata))
        self._opening.add(opening)
        opening.add_done_callback(self._opened)
        return Http2ByteStream(opening, self._endpoint, self._is_tls)

    async def _open(self, method: str, metadata: Metadata) -> Http2Stream:
        return (await self._connected()).open(method, None, metadata)

    def _opened(self, task: asyncio.Task[Http2Stream]) -> None:
        self._opening.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio logs one that nobody asks for

    async def _connected(self) -> Http2Connection:
        """The connection, made anew if it is over. Callers at the same time share the attempt, and its error."""
        if self._closed:
            raise call_cancelled(self._endpoint)
        if self._connection is not None and not self._connection.ended:
            return self._connection
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
        return await shared(self._connecting, self._endpoint)

    async def _connect(self) -> Http2Connection:
        loop = asyncio.get_running_loop()
        host, port = self._endpoint.host, self._endpoint.port
        why: list[str] = []
        try:
            for family, _kind, proto, _name, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        self._connection = await self._connect_to(str(address[0]), family, proto)
                    return self._connection
                except TimeoutError:
                    why.append(f"{address[0]}: no connection within {CONNECT_SECONDS:g} s")
                except OSError as error:
                    why.append(f"{address[0]}: {error.strerror or error}")
        except OSError as error:  # no such host
            why.append(str(error))
        details = f"failed to connect: {'; '.join(why)}"
        raise error_of_status("UNAVAILABLE", details, None, self._endpoint, self._is_tls)

    async def _connect_to(self, address: str, family: int, proto: int) -> Http2Connection:
        encrypted: dict[str, Any] = {}
        if self._tls is not None:
            name = self._tls.server_name or self._endpoint.host
            encrypted = {"ssl": self._tls.context, "server_hostname": name}
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Http2Connection(str(self._endpoint), is_tls=self._is_tls),
            address,
            self._endpoint.port,
            family=family,
            proto=proto,
            **encrypted,
        )
        return connection

    async def close(self) -> None:
        self._closed = True
        tasks = [*self._opening, *([self._connecting] if self._connecting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._connection.close("the call was cancelled")

    def __repr__(self) -> str:
        return f"Http2Channel({self._endpoint})"


class Http2Transport:
    """Makes channels in Python alone (penstock.client.wire.transport.ClientTransport)."""

    def connect(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> Http2Channel:
        return Http2Channel(endpoint, tls, on_trailer)

    def __repr__(self) -> str:
        return "Http2Transport()"


def _error_of(stream: Http2Stream, endpoint: Endpoint, is_tls: bool) -> ApiError:
    """Why a call that has ended gives no more messages."""
    ended = stream.ended
    if ended is None or ended.status == "OK":
        return closed_by_broker(endpoint)
    return error_of_status(ended.status, ended.details, ended.trailer, endpoint, is_tls)
