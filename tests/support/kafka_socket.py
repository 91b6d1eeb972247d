"""A client of Kafka's protocol on a real socket: one request after the other, by our own codec."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import TypeVar

from tests.support.kafka_listener import answer_in, frame

A = TypeVar("A")
TIMEOUT_S = 60


class KafkaSocket:
    """One connection to `host:port`, for a `with` block."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._connection: socket.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        if tls is not None:
            self._connection = tls.wrap_socket(self._connection, server_hostname=host)
        self._number = 0

    def ask(self, request: object, version: int, answer: type[A]) -> A:
        """The answer, of the class that is given."""
        number = self.send(request, version)
        return self.answer_to(number, version, answer)

    def send(self, request: object, version: int) -> int:
        """The number of the request, whose answer is taken later."""
        self._number += 1
        self._connection.sendall(frame(request, version, self._number))
        return self._number

    def answer_to(self, number: int, version: int, answer: type[A], within_s: float = TIMEOUT_S) -> A:
        """The next answer, which must be that request's; TimeoutError if it does not come in time."""
        self._connection.settimeout(within_s)
        (length,) = struct.unpack(">i", self._read(4))
        response, found = answer_in(memoryview(self._read(length)), answer, version)
        assert response == number and isinstance(found, answer)
        return found

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._connection.recv(size - len(found))
            if not more:
                raise ConnectionError("the node has closed the connection")
            found += more
        return found

    def is_closed(self) -> bool:
        """True once the node has closed the connection; TimeoutError when it does not for TIMEOUT_S."""
        try:
            return self._connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self) -> KafkaSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
