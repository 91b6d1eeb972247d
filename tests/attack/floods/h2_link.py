"""HTTP/2 of a flooder: a connection that logs in and calls as gRPC does, and frames by hand for all that gRPC's own
library would never send.

Names and values of hand-made headers are literals without an index, so they change no compression state, and calls by
the h2 library may follow and precede them.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import time
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error

from penstock.pb import broker_pb2
from penstock.sasl.credentials import ScramMechanism
from penstock.sasl.scram import ScramClient
from tests.attack.floods.links import MECHANISM, TIMEOUT_S, Target

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX: Final = (1 << 31) - 1
SERVICE: Final = "/penstock.v1.Broker/"


def h2_frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name: bytes, value: bytes) -> bytes:
    """A header that no table keeps; both parts are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def pairs_of(path: str, token: str = "") -> list[tuple[bytes, bytes]]:
    """The headers of a call."""
    pairs = [(b":method", b"POST"), (b":scheme", b"https"), (b":path", path.encode()), (b":authority", b"x")]
    pairs += [(b"te", b"trailers"), (b"content-type", b"application/grpc")]
    return pairs + ([(b"authorization", f"Bearer {token}".encode())] if token else [])


def heads(path: str, token: str = "") -> bytes:
    """The header block of a call."""
    return b"".join(literal(*pair) for pair in pairs_of(path, token))


def grpc_message(body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(body)) + body


class H2Link:
    """One connection at BROKER; logged in, if a user floods. `window`: how much of each answer the node may send
    before anybody reads."""

    def __init__(self, target: Target, receive_bytes: int = 0, window: int = 65_535) -> None:
        self.sock: socket.socket = target.socket("BROKER", receive_bytes)
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.token, self.stream = "", 1
        try:
            self._h2.initiate_connection()
            self.sock.sendall(self._h2.data_to_send())
            if target.user and target.ca:
                self.token = self._log_in(target.user, target.password)
            if window > 65_535:
                self.sock.sendall(h2_frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
                self.sock.sendall(h2_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW_MAX - 65_535)))
        except BaseException:
            self.sock.close()
            raise

    def _log_in(self, user: str, password: str) -> str:
        half = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password, secrets.token_urlsafe(18))
        answer, mechanism, message = broker_pb2.SaslAuthenticateResponse(), MECHANISM, half.respond(None)
        while message is not None:
            request = broker_pb2.SaslAuthenticateRequest(mechanism=mechanism, auth_bytes=message)
            raw, mechanism = self.ask(f"{SERVICE}SaslAuthenticate", request.SerializeToString()), ""
            answer = broker_pb2.SaslAuthenticateResponse.FromString(raw)
            message = half.respond(answer.auth_bytes)
        return answer.token

    def ask(self, path: str, message: bytes) -> bytes:
        """The message of the answer; ConnectionError when there is none."""
        stream, found, is_over = self._next(), bytearray(), False
        self._h2.send_headers(stream, pairs_of(path, self.token))
        self._h2.send_data(stream, grpc_message(message), end_stream=True)
        self.sock.sendall(self._h2.data_to_send())
        while not is_over:
            received = self.sock.recv(1 << 16)
            if not received:
                raise ConnectionError("closed by the node")
            for event in self._h2.receive_data(received):
                if isinstance(event, DataReceived):
                    found += event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                is_over |= isinstance(event, StreamEnded | StreamReset | ConnectionTerminated)
            self.sock.sendall(self._h2.data_to_send())
        if len(found) < 5:
            raise ConnectionError("the call was refused")
        return bytes(found[5:])

    def begin_message(self, path: str, size: int) -> int:
        """A new call, and the announcement of its message; `more` sends the message."""
        stream = self._next()
        self._h2.send_headers(stream, pairs_of(path, self.token))
        self._h2.send_data(stream, b"\0" + struct.pack(">I", size))
        self.sock.sendall(self._h2.data_to_send())
        return stream

    def call_unread(self, path: str, message: bytes) -> None:
        """A whole call, or none while as many are open as may be. Its answer is read as far as the first windows reach,
        and no further."""
        if self._h2.open_outbound_streams >= self._h2.remote_settings.max_concurrent_streams:
            self.more(0, b"")
            return
        stream, at = self.begin_message(path, len(message)), 0
        deadline = time.monotonic() + TIMEOUT_S
        while at < len(message):
            at += self.more(stream, message[at:])
            if time.monotonic() > deadline:
                raise ConnectionError("the node does not take the request")
        self.end(stream)

    def end(self, stream: int) -> None:
        """The message of a call is whole."""
        self._h2.end_stream(stream)
        self.sock.sendall(self._h2.data_to_send())

    def more(self, stream: int, block: bytes) -> int:
        """Sends as much of the block as the node's window takes; returns how much that is. Takes in what has come."""
        try:
            self._hear()
            if not block:
                return 0
            size = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size, len(block))
            if size:
                self._h2.send_data(stream, block[:size])
        except H2Error as error:  # the node has ended the call
            raise ConnectionError(repr(error)) from error
        self.sock.sendall(self._h2.data_to_send())
        return size

    def _hear(self) -> None:
        """Takes in what has come, without a wait."""
        self.sock.setblocking(False)
        try:
            while received := self.sock.recv(1 << 16):
                self._h2.receive_data(received)
            raise ConnectionError("closed by the node")
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        finally:
            self.sock.settimeout(TIMEOUT_S)

    def _next(self) -> int:
        self.stream += 2
        return self.stream - 2

    # -- by hand: the answers are not read -----------------------------------------------------------------------------

    def begin(self, path: str) -> tuple[int, bytes]:
        """A new call's stream, and the bytes that begin it."""
        stream = self._next()
        return stream, h2_frame(HEADERS, END_HEADERS, stream, heads(path, self.token))

    def called(self, path: str, message: bytes, *, is_ended: bool = True) -> bytes:
        """The bytes of a whole call; `message` fits into one frame."""
        stream, head = self.begin(path)
        return head + h2_frame(DATA, END_STREAM if is_ended else 0, stream, grpc_message(message))

    def close(self) -> None:
        self.sock.close()
