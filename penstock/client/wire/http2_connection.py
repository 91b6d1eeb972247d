"""One HTTP/2 connection that carries gRPC calls, in Python alone (the package h2), on the event loop that made it.

Each call is an HTTP/2 stream (http2_stream.py). A connection ends once and takes its calls with it: h2 cannot go on
with them after a GOAWAY, so an orderly stop of a broker looks like a broken connection here. Not here: connecting, and
deadlines (http2_channel.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from penstock.client.wire.http2_stream import NO_HTTP2, READ_AHEAD_BYTES, Ended, Http2Stream, end_in
from penstock.client.wire.tls_words import BEFORE_A_WORD, PEER_SPEAKS_TLS
from penstock.client.wire.transport import Metadata

FRAME_BYTES_MAX = 256 * 1024
SETTINGS_SECONDS = 3.0
"""A peer that accepts a connection and does not begin to speak HTTP/2 within this time does not speak it."""
TLS_ALERT = b"\x15\x03"
"""The first bytes of a TLS peer that was not spoken to in TLS (RFC 8446 §5.1)."""
KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS = 30.0, 10.0


class Http2Connection(asyncio.Protocol):
    """Speaks HTTP/2 over a transport of the event loop; `ended` says why once it is over."""

    def __init__(self, authority: str, *, is_tls: bool = False) -> None:
        self.ended = ""
        self._authority = authority
        self._scheme = "https" if is_tls else "http"
        config = h2.config.H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)
        self._h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, Http2Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_heard = False  # the peer said something since the timer was set
        self._was_heard = False  # the peer ever said something
        self._timer: asyncio.TimerHandle | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def open(self, method: str, timeout_ms: int | None = None, metadata: Metadata = ()) -> Http2Stream:
        """A call of its own. On a connection that is over, it has ended too."""
        headers = [(":method", "POST"), (":scheme", self._scheme), (":path", method), (":authority", self._authority)]
        headers += [("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "penstock-python-http2")]
        if timeout_ms is not None:
            headers.append(("grpc-timeout", f"{min(timeout_ms, 99_999_999)}m"))
        headers += metadata
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
                h2.settings.SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES_MAX,
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
        self._is_heard = self._was_heard = True
        if self.ended:
            return
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            self._end(PEER_SPEAKS_TLS if data.startswith(TLS_ALERT) else f"{NO_HTTP2}: {error}")
            return
        for event in events:
            self._on_event(event)
        if not self.ended:
            self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        when = "" if self._was_heard else f" {BEFORE_A_WORD}"
        self._end(f"the connection ended{when}: {error or 'the peer closed it'}")

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
            found = end_in(event.headers or ())
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
