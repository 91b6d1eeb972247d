"""One HTTP/2 connection that carries gRPC calls, in Python alone (the package h2), on the event loop that made it.

A call is an HTTP/2 stream. A message in it is a byte that says whether it is compressed (never, here), its length in
four bytes, and its bytes. The peer ends a call with trailers: `grpc-status`, `grpc-message` and what else it wants to
tell. Source: "gRPC over HTTP2" (grpc/grpc, doc/PROTOCOL-HTTP2.md). A connection ends once and takes its calls with it:
h2 cannot go on with them after a GOAWAY, so an orderly stop of a broker looks like a broken connection here.

Bounded: a message by MAX_MESSAGE_BYTES, what a peer may send ahead of its reader by READ_AHEAD_BYTES and one message.
Not here: connecting, deadlines, and what an end means (http2_channel.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, cast
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from penstock.client.wire.statuses import MAX_MESSAGE_BYTES

READ_AHEAD_BYTES = 4 * 1024 * 1024
MAX_FRAME_BYTES = 256 * 1024
PREFIX = struct.Struct(">BI")
SETTINGS_SECONDS = 3.0
"""A peer that accepts a connection and does not begin to speak HTTP/2 within this time does not speak it."""
KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS = 30.0, 10.0
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

Headers = list[tuple[str, str]]


class Ended(NamedTuple):
    """How a call ended: gRPC's status by its name, its text, and the trailers."""

    status: str
    details: str
    trailer: tuple[tuple[str, str], ...] = ()


class Http2Stream:
    """One call: messages in both directions. One task may write while another one reads."""

    def __init__(self, connection: Http2Connection, stream_id: int) -> None:
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


class Http2Connection(asyncio.Protocol):
    """Speaks HTTP/2 over a transport of the event loop; `ended` says why once it is over."""

    def __init__(self, authority: str) -> None:
        self.ended = ""
        self._authority = authority
        config = h2.config.H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)
        self._h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, Http2Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_heard = False  # the peer said something since the timer was set
        self._timer: asyncio.TimerHandle | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def open(self, method: str, timeout_ms: int | None = None) -> Http2Stream:
        """A call of its own. On a connection that is over, it has ended too."""
        headers = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", self._authority)]
        headers += [("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "penstock-python-http2")]
        if timeout_ms is not None:
            headers.append(("grpc-timeout", f"{min(timeout_ms, 99_999_999)}m"))
        try:
            stream = Http2Stream(self, 0 if self.ended else self._h2.get_next_available_stream_id())
            if not self.ended:
                self._h2.send_headers(stream.stream_id, headers)
        except h2.exceptions.ProtocolError as error:  # no ids are left, or the peer allows no more calls at once
            stream = Http2Stream(self, 0)
            stream.end(Ended("UNAVAILABLE", repr(error)))
            return stream
        if self.ended:
            stream.end(Ended("UNAVAILABLE", self.ended))
            return stream
        self._streams[stream.stream_id] = stream
        self._flush()
        return stream

    def room(self, stream_id: int) -> int:
        """How many bytes may be sent now."""
        if self._is_paused:
            return 0
        return max(0, min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size))

    def send(self, stream_id: int, data: bytes, is_last: bool) -> None:
        self._h2.send_data(stream_id, data, end_stream=is_last)
        self._flush()

    def acknowledge(self, stream_id: int, size: int) -> None:
        if not self.ended:
            self._h2.acknowledge_received_data(size, stream_id)
            self._flush()

    def reset(self, stream_id: int) -> None:
        if self.ended or stream_id not in self._streams:
            return
        with contextlib.suppress(h2.exceptions.ProtocolError):  # the peer has reset it
            self._h2.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
            self._flush()

    def forget(self, stream_id: int) -> None:
        self._streams.pop(stream_id, None)

    def close(self, details: str) -> None:
        """Ends the connection and every call on it."""
        if not self.ended and self._transport is not None:
            self._h2.close_connection()
            self._flush()
        self._end(details, "CANCELLED")

    def _end(self, details: str, status: str = "UNAVAILABLE") -> None:
        if self.ended:
            return
        self.ended = details
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            if status == "CANCELLED":
                self._transport.close()
            else:  # nothing that is still to be sent would arrive
                self._transport.abort()
        for stream in tuple(self._streams.values()):
            stream.end(Ended(status, details))

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    # -- what the event loop tells -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.update_settings(
            {
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: READ_AHEAD_BYTES,
                h2.settings.SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
            }
        )
        window = self._h2.inbound_flow_control_window
        self._h2.increment_flow_control_window(2**31 - 1 - window)  # each call has a window of its own
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(SETTINGS_SECONDS, self._on_no_settings)

    def _on_no_settings(self) -> None:
        if not self._is_heard:
            self._end(f"{NO_HTTP2}: the peer said nothing for {SETTINGS_SECONDS:g} s")
            return
        self._watch()

    def _watch(self) -> None:
        self._is_heard = False
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_SECONDS, self._on_silence)

    def _on_silence(self) -> None:
        """gRPC's keepalive: a peer that is asked for a sign of life gives one, or is gone."""
        if self._is_heard or not self._streams:
            self._watch()
            return
        self._h2.ping(b"penstock")
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT_SECONDS, self._on_late_pong)

    def _on_late_pong(self) -> None:
        if self._is_heard:
            self._watch()
        else:
            self._end("the peer does not answer a ping")

    def data_received(self, data: bytes) -> None:
        self._is_heard = True
        if self.ended:
            return
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            self._end(f"{NO_HTTP2}: {error}")
            return
        for event in events:
            self._on_event(event)
        if not self.ended:
            self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection ended: {error or 'the peer closed it'}")

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_writers()

    def _wake_writers(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.on_writable()

    def _on_event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self._end(f"GOAWAY: the peer ends the connection, error code {int(event.error_code or 0)}")
            return
        if isinstance(event, (h2.events.RemoteSettingsChanged, h2.events.WindowUpdated)):
            self._wake_writers()
            return
        stream = self._streams.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, h2.events.DataReceived):
            if stream is None:
                self.acknowledge(event.stream_id, event.flow_controlled_length)
            else:
                stream.on_data(event.data, event.flow_controlled_length)
        elif stream is None:
            return
        elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
            headers = list(_texts(event.headers or ()))
            found = _end_in(headers)
            if found is not None:
                if not stream.is_done_writing:  # nothing that is written counts any more
                    self.reset(stream.stream_id)
                stream.end(found)
        elif isinstance(event, h2.events.StreamReset):
            stream.end(Ended("UNKNOWN", f"RST_STREAM with error code {int(event.error_code)}"))
        elif isinstance(event, h2.events.StreamEnded):
            stream.end(Ended("UNKNOWN", "RST_STREAM: the call ended without a status"))

    def __repr__(self) -> str:
        return f"Http2Connection({self._authority}, {self.ended or f'{len(self._streams)} calls'})"


def _texts(headers: Iterable[tuple[bytes | str, bytes | str]]) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        yield (
            name if isinstance(name, str) else name.decode("ascii", "replace"),
            value if isinstance(value, str) else value.decode("utf-8", "replace"),
        )


def _end_in(headers: Headers) -> Ended | None:
    """The end that a block of headers tells; None for the head of an answer that is in order."""
    by_name = dict(headers)
    if "grpc-status" in by_name:
        number = by_name["grpc-status"]
        known = number.isascii() and number.isdigit() and int(number) < len(STATUS_NAMES)
        status = STATUS_NAMES[int(number)] if known else "UNKNOWN"
        return Ended(status, unquote(by_name.get("grpc-message", "")) or "no details", tuple(headers))
    http_status = by_name.get(":status", "200")
    if http_status != "200":
        return Ended(_BY_HTTP_STATUS.get(http_status, "UNKNOWN"), f"Received http2 header with status: {http_status}")
    if ":status" in by_name and not by_name.get("content-type", "").startswith("application/grpc"):
        return Ended("UNAVAILABLE", f"{NO_HTTP2}: an answer of type {by_name.get('content-type', 'none')!r}")
    return None
