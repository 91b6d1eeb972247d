"""One gRPC call on an HTTP/2 connection: messages cut out of its data, flow control, and how it ended.

A message is a byte that says whether it is compressed (never, here), its length in four bytes, and its bytes. The peer
ends a call with trailers: `grpc-status`, `grpc-message` and what else it wants to tell. Source: "gRPC over HTTP2"
(grpc/grpc, doc/PROTOCOL-HTTP2.md). Bounded: a message by MAX_MESSAGE_BYTES, what a peer may send ahead of its reader by
READ_AHEAD_BYTES and one message. Not here: frames and sockets (http2_connection.py).
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from penstock.client.wire.statuses import MAX_MESSAGE_BYTES

READ_AHEAD_BYTES = 4 * 1024 * 1024
PREFIX = struct.Struct(">BI")
NO_HTTP2 = "Failed parsing HTTP/2"
STATUS_NAMES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""gRPC's statuses, by their numbers."""
_BY_HTTP_STATUS = {"401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED"}
_BY_HTTP_STATUS |= dict.fromkeys(("429", "502", "503", "504"), "UNAVAILABLE")


class CallCarrier(Protocol):
    """The part of a connection that a call uses."""

    def room(self, stream_id: int) -> int:
        """How many bytes may be sent now."""
        ...

    def send(self, stream_id: int, data: bytes, is_last: bool) -> None: ...

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Lets the peer send this many more bytes."""
        ...

    def reset(self, stream_id: int) -> None:
        """Ends the call at the peer, unless it has ended."""
        ...

    def forget(self, stream_id: int) -> None: ...


class Ended(NamedTuple):
    """How a call ended: gRPC's status by its name, its text, and the trailers."""

    status: str
    details: str
    trailer: tuple[tuple[str, str], ...] = ()


class Http2Stream:
    """One call: messages in both directions. One task may write while another one reads."""

    def __init__(self, connection: CallCarrier, stream_id: int) -> None:
        self.stream_id = stream_id
        self.ended: Ended | None = None
        self.is_done_writing = False
        self._connection = connection
        self._messages: deque[bytes] = deque()
        self._received = bytearray()
        self._size: int | None = None  # of the message that is coming in
        self._waiting_bytes = 0  # of whole messages that nobody has read
        self._owed_bytes = 0  # of the flow control window: given back once there is a reader for more
        self._readable, self._writable = asyncio.Event(), asyncio.Event()

    async def read(self) -> bytes | None:
        """The next message; None once the call has ended and all were read."""
        while not self._messages:
            if self.ended is not None:
                return None
            self._readable.clear()
            await self._readable.wait()
        message = self._messages.popleft()
        self._waiting_bytes -= len(message)
        self._give_back()
        return message

    async def write(self, message: bytes, *, is_last: bool = False) -> bool:
        """Returns when the connection has taken the message; False if the call ended before that."""
        if len(message) > MAX_MESSAGE_BYTES:
            self._refuse(f"Sent message larger than max ({len(message)} vs. {MAX_MESSAGE_BYTES})")
        data = memoryview(PREFIX.pack(0, len(message)) + message)
        try:
            while data and self.ended is None:
                room = self._connection.room(self.stream_id)
                if not room:
                    self._writable.clear()
                    await self._writable.wait()
                    continue
                self.is_done_writing = is_last and room >= len(data)
                self._connection.send(self.stream_id, bytes(data[:room]), self.is_done_writing)
                data = data[room:]
        except asyncio.CancelledError:  # half a message is out: nothing can follow it
            self.cancel()
            raise
        return self.ended is None or not data

    def cancel(self, details: str = "the call was cancelled") -> None:
        """Ends the call here and at the peer; nothing if it has ended."""
        if self.ended is None:
            self._connection.reset(self.stream_id)
            self.end(Ended("CANCELLED", details))

    # -- what the connection tells -------------------------------------------------------------------------------------

    def on_writable(self) -> None:
        self._writable.set()

    def on_data(self, data: bytes, window_bytes: int) -> None:
        self._received += data
        self._owed_bytes += window_bytes
        while self.ended is None and self._take_message():
            pass
        self._give_back()

    def _take_message(self) -> bool:
        received = self._received
        if self._size is None and len(received) >= PREFIX.size:
            is_compressed, self._size = PREFIX.unpack_from(received)
            if is_compressed:
                self._refuse("a compressed message, which was not asked for", "INTERNAL")
            elif self._size > MAX_MESSAGE_BYTES:
                self._refuse(f"Received message larger than max ({self._size} vs. {MAX_MESSAGE_BYTES})")
        if self.ended is not None or self._size is None or len(received) < PREFIX.size + self._size:
            return False
        end = PREFIX.size + self._size
        self._messages.append(bytes(memoryview(received)[PREFIX.size : end]))
        self._waiting_bytes += self._size
        del received[:end]
        self._size = None
        self._readable.set()
        return True

    def _give_back(self) -> None:
        """Lets the peer send more, unless much waits to be read. A message that is not whole always gets its rest."""
        if self._owed_bytes and (not self._messages or self._waiting_bytes < READ_AHEAD_BYTES):
            owed, self._owed_bytes = self._owed_bytes, 0
            self._connection.acknowledge(self.stream_id, owed)

    def _refuse(self, details: str, status: str = "RESOURCE_EXHAUSTED") -> None:
        self._connection.reset(self.stream_id)
        self.end(Ended(status, details))

    def end(self, ended: Ended) -> None:
        """The first end counts: a reset that follows the trailers says nothing."""
        if self.ended is None:
            self.ended = ended
            self._connection.forget(self.stream_id)
            self._readable.set()
            self._writable.set()

    def __repr__(self) -> str:
        return f"Http2Stream({self.stream_id}, {self.ended or 'open'})"


def _texts(headers: Iterable[tuple[bytes | str, bytes | str]]) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        yield (
            name if isinstance(name, str) else name.decode("ascii", "replace"),
            value if isinstance(value, str) else value.decode("utf-8", "replace"),
        )


def end_in(raw_headers: Iterable[tuple[bytes | str, bytes | str]]) -> Ended | None:
    """The end that a block of headers tells; None for the head of an answer that is in order."""
    headers = tuple(_texts(raw_headers))
    by_name = dict(headers)
    if "grpc-status" in by_name:
        number = by_name["grpc-status"]
        known = number.isascii() and number.isdigit() and int(number) < len(STATUS_NAMES)
        status = STATUS_NAMES[int(number)] if known else "UNKNOWN"
        return Ended(status, unquote(by_name.get("grpc-message", "")) or "no details", headers)
    http_status = by_name.get(":status", "200")
    if http_status != "200":
        return Ended(_BY_HTTP_STATUS.get(http_status, "UNKNOWN"), f"Received http2 header with status: {http_status}")
    if ":status" in by_name and not by_name.get("content-type", "").startswith("application/grpc"):
        return Ended("UNAVAILABLE", f"{NO_HTTP2}: an answer of type {by_name.get('content-type', 'none')!r}")
    return None
