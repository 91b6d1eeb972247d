"""The client's transport in a forked child of a process that has used gRPC: the same calls, in Python alone.

gRPC's library keeps threads and files that a fork does not carry over, or shares with the parent; used in a child it
hangs, and its shared files stall the parent. So a child's clients speak gRPC through http2_connection.py. It costs more
processor time for each call and byte than the library does (docs/forking.md has figures), and is used nowhere else.

A channel has one connection at a time, made when it is needed. Not here: which transport a process uses (forks.py).
"""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

from penstock.client.wire.http2_connection import Http2Connection
from penstock.client.wire.http2_stream import Http2Stream
from penstock.client.wire.statuses import call_cancelled, closed_by_broker, error_of_status
from penstock.errors import ApiError
from penstock.types import Endpoint

CONNECT_SECONDS = 3.0
"""For each address of a host."""

T = TypeVar("T")


class Http2ByteStream:
    """One bidirectional stream."""

    __slots__ = ("_endpoint", "_opening")

    def __init__(self, opening: asyncio.Task[Http2Stream], endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._opening = opening

    async def write(self, message: bytes) -> None:
        stream = await _shared(self._opening, self._endpoint)
        if not await stream.write(message):
            raise _error_of(stream, self._endpoint)

    async def read(self) -> bytes:
        stream = await _shared(self._opening, self._endpoint)
        message = await stream.read()
        if message is None:
            raise _error_of(stream, self._endpoint)
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

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Http2Connection | None = None
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._opening: set[asyncio.Task[Http2Stream]] = set()
        self._closed = False

    async def call(self, method: str, request: bytes, timeout_ms: int) -> bytes:
        stream: Http2Stream | None = None
        answer: bytes | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                stream = (await self._connected()).open(method, timeout_ms)
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
        if answer is None or stream.ended.status != "OK":
            raise _error_of(stream, self._endpoint)
        return answer

    def open_stream(self, method: str) -> Http2ByteStream:
        opening = asyncio.ensure_future(self._open(method))
        self._opening.add(opening)
        opening.add_done_callback(self._opened)
        return Http2ByteStream(opening, self._endpoint)

    async def _open(self, method: str) -> Http2Stream:
        return (await self._connected()).open(method)

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
        return await _shared(self._connecting, self._endpoint)

    async def _connect(self) -> Http2Connection:
        loop = asyncio.get_running_loop()
        host, port = self._endpoint.host, self._endpoint.port
        why: list[str] = []
        try:
            for family, _kind, proto, _name, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        _, self._connection = await loop.create_connection(
                            lambda: Http2Connection(str(self._endpoint)),
                            str(address[0]),
                            port,
                            family=family,
                            proto=proto,
                        )
                    return self._connection
                except TimeoutError:
                    why.append(f"{address[0]}: no connection within {CONNECT_SECONDS:g} s")
                except OSError as error:
                    why.append(f"{address[0]}: {error.strerror or error}")
        except OSError as error:  # no such host
            why.append(str(error))
        raise error_of_status("UNAVAILABLE", f"failed to connect: {'; '.join(why)}", None, self._endpoint)

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

    def connect(self, endpoint: Endpoint) -> Http2Channel:
        return Http2Channel(endpoint)

    def __repr__(self) -> str:
        return "Http2Transport()"


async def _shared(task: asyncio.Task[T], endpoint: Endpoint) -> T:
    """The result of a task for which others wait too. If it was cancelled, its waiters were not: they get an error."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if task.cancelled() and (own is None or not own.cancelling()):
            raise call_cancelled(endpoint) from None
        raise


def _error_of(stream: Http2Stream, endpoint: Endpoint) -> ApiError:
    """Why a call that has ended gives no more messages."""
    ended = stream.ended
    if ended is None or ended.status == "OK":
        return closed_by_broker(endpoint)
    return error_of_status(ended.status, ended.details, ended.trailer, endpoint)
