"""A small HTTP server for an operator's pages: one thread, one request for each connection, and a limit for everything.

    accepted   refused above the limits of page_turns.py
    waits      until it is its network's turn
    TLS, head  together `head_seconds`, and HEAD_BYTES_MAX
    answer     `answer_seconds`, written as it is read: few bytes of an answer wait in memory

It has an event loop of its own, so that pages are there while the node's loop stands still, and no thread for each
connection: a client that opens thousands and sends nothing costs a node no more than `connections` descriptors. Not
here: the pages (exposition.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import math
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

from broker.metrics.page_turns import CONNECTIONS_MAX, PageTurns
from broker.tls.ssl_contexts import ServerContexts, why_not
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 16_384
PART_BYTES: Final = 65_536
"""The bytes of an answer that are given to a connection at a time."""
BACKLOG: Final = 512
ACCEPTED_AT_ONCE: Final = 256
PAUSE_SECONDS: Final = 0.01
"""The pause between two looks at what has come: a client that connects anew after each refusal does so a hundred times
a second."""
NO_ROOM_SECONDS: Final = 1.0
GZIP_LEVEL: Final = 1
"""Ten times faster than gzip's own level for a text that is nearly as small."""
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The bounds of one server."""

    connections: int = CONNECTIONS_MAX
    head_seconds: float = 10.0
    answer_seconds: float = 30.0
    logged_every_s: float = 60.0
    """The pause between two lines of the log that say that TLS has failed."""


PAGE_LIMITS: Final = PageLimits()


@dataclass(frozen=True)
class Page:
    """One answer of the server."""

    text: str
    content_type: str
    ok: bool = True
    """False: the status is 503."""

    @cached_property
    def body(self) -> bytes:
        return self.text.encode()

    @cached_property
    def zipped(self) -> bytes:
        return gzip.compress(self.body, GZIP_LEVEL)


PageOf = Callable[[str], Awaitable[Page] | None]
"""The page of a path; None if the path has no page."""


class PageServer:
    """One listener, from `start` to `stop`."""

    def __init__(
        self,
        endpoint: Endpoint,
        page_of: PageOf,
        not_found: Page,
        contexts: ServerContexts | None,
        limits: PageLimits = PAGE_LIMITS,
    ) -> None:
        """Binds; OSError if that cannot be. `page_of` is called in the thread of this server."""
        self._page_of, self._not_found, self._contexts, self._limits = page_of, not_found, contexts, limits
        self._listening = _bound(endpoint)
        self._turns = PageTurns(limits.connections)
        self._tasks: dict[Endpoint, asyncio.Task[None]] = {}
        self._logged_at = -math.inf
        self._thread = threading.Thread(target=self._run, name="metrics-http", daemon=True)
        self._loop = asyncio.SelectorEventLoop()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._accepting = self._loop.create_task(self._accepts())
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        if self._accepting is not None:
            self._loop.call_soon_threadsafe(self._accepting.cancel)
            self._thread.join()

    def _run(self) -> None:
        assert self._accepting is not None
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._accepting)
        self._loop.run_until_complete(_end_tasks())
        self._listening.close()
        self._loop.close()

    # -- connections come and go ---------------------------------------------------------------------------------------

    async def _accepts(self) -> None:
        while True:
            try:
                self._came(*await self._loop.sock_accept(self._listening))
                for _ in range(ACCEPTED_AT_ONCE):
                    self._came(*self._listening.accept())
            except BlockingIOError:
                await asyncio.sleep(PAUSE_SECONDS)
            except OSError:  # it was reset before it was accepted, or the process has no descriptor left
                await asyncio.sleep(NO_ROOM_SECONDS if not self._tasks else PAUSE_SECONDS)

    def _came(self, accepted: socket.socket, address: Any) -> None:
        accepted.setblocking(False)
        peer = Endpoint(str(address[0]), int(address[1]))
        if peer in self._tasks:  # its end is not told yet
            accepted.close()
            return
        cut = self._turns.came(peer, self._now_ms())
        if cut == peer:
            accepted.close()
            return
        if cut is not None:
            self._tasks[cut].cancel()
        task = self._tasks[peer] = self._loop.create_task(self._serve(accepted, peer))
        task.add_done_callback(lambda _: self._ended(accepted, peer))  # a task cut before it began runs no `finally`

    def _ended(self, accepted: socket.socket, peer: Endpoint) -> None:
        accepted.close()
        del self._tasks[peer]
        self._turns.gone(peer)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    async def _serve(self, accepted: socket.socket, peer: Endpoint) -> None:
        with accepted, contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            await asyncio.sleep(self._turns.wait_of_network_ms(peer.host, self._now_ms()) / 1_000)
            await asyncio.sleep(self._turns.wait_ms(self._now_ms()) / 1_000)
            await self._answer(accepted, peer)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _answer(self, accepted: socket.socket, peer: Endpoint) -> None:
        connection = _Connection(self._loop, accepted)
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                if not await self._opened(connection, peer):
                    return
                head = await connection.head()
            async with asyncio.timeout(self._limits.answer_seconds):
                await connection.write(*await self._response(head))
        finally:
            connection.close()

    async def _opened(self, connection: _Connection, peer: Endpoint) -> bool:
        try:
            await connection.open(
                None if self._contexts is None else self._contexts.current(), self._limits.head_seconds
            )
        except (OSError, ssl.SSLError, ValueError) as error:
            self._tell(why_not(error), peer)
            return False
        return True

    def _tell(self, why: str, peer: Endpoint) -> None:
        """A Prometheus that is set up wrong should find the reason; a stranger should not fill the log."""
        if time.monotonic() - self._logged_at >= self._limits.logged_every_s:
            self._logged_at = time.monotonic()
            _log.warning("metrics.listener: no TLS with %s: %s", peer.host, why)

    async def _response(self, head: bytes | None) -> tuple[bytes, bytes]:
        """The head and the body of the answer."""
        if head is None:
            return _answered(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, Page("the head is too large\n", TEXT), b"")
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _answered(HTTPStatus.BAD_REQUEST, Page("this is no request of HTTP/1\n", TEXT), b"")
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            return _answered(HTTPStatus.METHOD_NOT_ALLOWED, Page("pages are read: GET\n", TEXT), b"")
        found = self._page_of(target.partition(b"?")[0].decode("latin-1"))
        if found is None:
            page, status = self._not_found, HTTPStatus.NOT_FOUND
        else:
            try:
                page = await found
                status = HTTPStatus.OK if page.ok else HTTPStatus.SERVICE_UNAVAILABLE
            except Exception:
                _log.exception("metrics.listener: a page could not be made")
                page, status = Page("the page could not be made; see the node's log\n", TEXT), _FAILED
        top, body = _answered(status, page, _header(lines, b"accept-encoding"))
        return top, b"" if method == b"HEAD" else body

    def __repr__(self) -> str:
        return f"PageServer({len(self._tasks)} connections)"


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


_NO_LINGER: Final = struct.pack("ii", 1, 0)
_FAILED: Final = HTTPStatus.INTERNAL_SERVER_ERROR


class _Connection:
    """The bytes of one connection, with TLS or without."""

    def __init__(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
        self._loop, self._accepted = loop, accepted
        self._reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX, loop=loop)
        self._protocol = asyncio.StreamReaderProtocol(self._reader, loop=loop)
        self._transport: asyncio.Transport | None = None

    async def open(self, context: ssl.SSLContext | None, handshake_seconds: float) -> None:
        """The connection, with TLS once its handshake is done."""
        limits = {} if context is None else {"ssl_handshake_timeout": handshake_seconds, "ssl_shutdown_timeout": 1.0}
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: self._protocol, self._accepted, ssl=context, **limits
        )
        transport.set_write_buffer_limits(PART_BYTES)
        self._transport = transport

    async def head(self) -> bytes | None:
        """The head of a request; None if it is too large."""
        try:
            return await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return None

    async def write(self, *parts: bytes) -> None:
        """Returns when all was given to the system."""
        assert self._transport is not None
        writer = asyncio.StreamWriter(self._transport, self._protocol, self._reader, self._loop)
        for part in parts:
            for at in range(0, len(part), PART_BYTES):
                writer.write(part[at : at + PART_BYTES])
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    def close(self) -> None:
        """Ends the connection at once, with what is unread of its answer; a closed one stays closed."""
        if self._transport is not None:
            with contextlib.suppress(OSError):  # it is closed
                self._accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()


def _answered(status: HTTPStatus, page: Page, accepted_encodings: bytes) -> tuple[bytes, bytes]:
    is_zipped = b"gzip" in accepted_encodings
    body = page.zipped if is_zipped else page.body
    top = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n" + "Content-Encoding: gzip\r\n" * is_zipped + "\r\n"
    )
    return top.encode("latin-1"), body


def _header(lines: list[bytes], name: bytes) -> bytes:
    """The value of a header, in small letters; empty without it."""
    for line in lines[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.lower()
    return b""


def _bound(endpoint: Endpoint) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        *endpoint, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a restart waits for old connections
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound
