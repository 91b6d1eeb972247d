"""The connections of a flooder: Kafka's frames and HTTP/2 by hand, over TLS or plain, from any address of this machine.

They are blocking sockets with a short time-out and little code of their own, because a flood must be cheap: two cores
have the node, the honest clients and the flooder. They neither check nor keep answers that nobody asks for.

Not here: what a flood sends (the modules of floods), and how much of a core it may have (flooder.py).
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import count
from typing import Any, Final

from penstock.sasl.credentials import ScramMechanism
from penstock.sasl.scram import ScramClient

HOST: Final = "127.0.0.1"
TIMEOUT_S: Final = 2.0
"""A flooder does not wait long for a node that stands still."""
PRODUCE, HANDSHAKE, AUTHENTICATE, INIT_PRODUCER_ID, OFFSET_COMMIT, DELETE_GROUPS = 0, 17, 36, 22, 8, 42
COORDINATOR_CODES: Final = (14, 15, 16)
"""The coordinator loads, or is not there yet: ask again."""
ESTABLISHED: Final = 1
"""The state of a TCP connection that neither side has ended (tcp_states.h)."""
MECHANISM: Final = "SCRAM-SHA-256"


def text(value: str | None) -> bytes:
    """A string of Kafka's protocol."""
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    """Bytes of Kafka's protocol; a frame has the same form."""
    return struct.pack(">i", len(value)) + value


@cache
def _context(ca: str, alpn: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False  # the certificate names the host, and a flooder may come by another address
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


@dataclass
class Target:
    """The node that is flooded, and who floods it: a user, or nobody; from these addresses, one after the other."""

    kafka: int
    broker: int
    metrics: int
    ca: str = ""
    user: str = ""
    password: str = ""
    sources: tuple[str, ...] = ("",)
    host: str = HOST
    figures: dict[str, float] = field(default_factory=dict)
    """The result of the flood, which the flooder prints."""
    _turn: Any = field(default_factory=count, init=False)

    def as_order(self) -> dict[str, Any]:
        """The fields as JSON has them, for another process."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def add(self, figure: str, by: float = 1) -> None:
        self.figures[figure] = self.figures.get(figure, 0) + by

    def most(self, figure: str, value: float) -> None:
        self.figures[figure] = max(self.figures.get(figure, 0), value)

    def next_source(self) -> str:
        return self.sources[next(self._turn) % len(self.sources)]

    def port(self, door: str) -> int:
        return {"KAFKA": self.kafka, "BROKER": self.broker, "METRICS": self.metrics}[door]

    def plain_socket(self, door: str, receive_bytes: int = 0, timeout_s: float = TIMEOUT_S) -> socket.socket:
        """A TCP connection, on which nothing was sent."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        found = socket.socket(family)
        try:
            found.settimeout(timeout_s)
            if receive_bytes:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            source = self.next_source()
            if source:
                found.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect
                found.bind((source, 0))
            found.connect((self.host, self.port(door)))
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            found.close()
            raise
        return found

    def socket(self, door: str, receive_bytes: int = 0, timeout_s: float = TIMEOUT_S) -> socket.socket:
        """A connection whose TLS handshake is over, where the listener has TLS."""
        plain = self.plain_socket(door, receive_bytes, timeout_s)
        if not self.ca or door == "METRICS":
            return plain
        try:
            alpn = "h2" if door == "BROKER" else ""
            return _context(self.ca, alpn).wrap_socket(plain, server_hostname=HOST)
        except BaseException:
            plain.close()
            raise

    def kafka_link(self, receive_bytes: int = 0, timeout_s: float = TIMEOUT_S, client_id: str = "c") -> KafkaLink:
        """A connection to KAFKA, logged in if a user floods."""
        link = KafkaLink(self.socket("KAFKA", receive_bytes, timeout_s), client_id)
        if self.user and self.ca:
            try:
                link.log_in(self.user, self.password)
            except BaseException:
                link.close()
                raise
        return link

    def page(self) -> str:
        """The node's metrics."""
        found = bytearray()
        with self.plain_socket("METRICS") as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while more := connection.recv(1 << 18):
                found += more
        return found.decode("utf-8", "replace")


def is_there(connection: socket.socket) -> bool:
    """False once either side has ended it; unread answers change nothing."""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED
    except OSError:
        return False


class KafkaLink:
    """One connection in Kafka's protocol."""

    def __init__(self, connection: socket.socket, client_id: str = "c") -> None:
        self.sock, self._number, self._client_id = connection, 0, client_id

    def send(self, key: int, version: int, body: bytes, *, is_flexible: bool = False, client_id: str = "") -> None:
        self.sock.sendall(self.framed(key, version, body, is_flexible=is_flexible, client_id=client_id))

    def framed(self, key: int, version: int, body: bytes, *, is_flexible: bool = False, client_id: str = "") -> bytes:
        """`client_id`: another one than the connection's."""
        self._number += 1
        name = text(client_id or self._client_id)
        head = struct.pack(">hhi", key, version, self._number) + name + (b"\0" if is_flexible else b"")
        return data(head + body)

    def receive(self) -> bytes:
        """An answer, from its number on."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        self.send(key, version, body)
        return self.receive()

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self.sock.recv(min(size - len(found), 1 << 16))
            if not more:
                raise ConnectionError("closed by the node")
            found += more
        return bytes(found)

    def authenticate(self, message: bytes) -> bytes:
        """PermissionError when the node refuses."""
        self.send(AUTHENTICATE, 0, data(message))
        return self.authenticated()

    def authenticated(self) -> bytes:
        """The node's next message; PermissionError when it refuses."""
        answer = self.receive()
        code, length = struct.unpack_from(">hh", answer, 4)
        at = 8 + max(length, 0)
        if code:
            raise PermissionError(f"{code}: {answer[8:at]!r}")
        (size,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + size]

    def log_in(self, user: str, password: str) -> None:
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password, secrets.token_urlsafe(18))
        self.ask(HANDSHAKE, 1, text(MECHANISM))
        message = client.respond(None)
        while message is not None:
            message = client.respond(self.authenticate(message))

    def proof(self, user: str, password: str) -> bytes:
        """The last message of a log-in, which is not sent."""
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password, secrets.token_urlsafe(18))
        self.ask(HANDSHAKE, 1, text(MECHANISM))
        return client.respond(self.authenticate(client.respond(None) or b"")) or b""

    def commit_offset(self, group: str, topic: str, note: str, partitions: int = 1) -> int:
        """The error code of a commit without a member; waits for a coordinator that loads."""
        parts = b"".join(struct.pack(">iq", index, 1) + text(note) for index in range(partitions))
        body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1) + text(topic)
        for _ in range(20):
            answer = self.ask(OFFSET_COMMIT, 2, body + struct.pack(">i", partitions) + parts)
            (code,) = struct.unpack_from(">h", answer, len(answer) - 2)
            if code not in COORDINATOR_CODES:
                break
        return int(code)

    def produce(self, topic: str, batch: bytes) -> int:
        """One batch to partition 0; the error code."""
        body = text(None) + struct.pack(">hii", 1, 10_000, 1) + text(topic) + struct.pack(">ii", 1, 0) + data(batch)
        answer = self.ask(PRODUCE, 3, body)
        (code,) = struct.unpack_from(">h", answer, 18 + len(topic.encode()))
        return int(code)

    def delete_group(self, group: str) -> None:
        self.ask(DELETE_GROUPS, 0, struct.pack(">i", 1) + text(group))

    def init_transactional_id(self, name: str | None) -> int:
        """The error code."""
        for _ in range(20):
            answer = self.ask(INIT_PRODUCER_ID, 0, text(name) + struct.pack(">i", 60_000))
            (code,) = struct.unpack_from(">h", answer, 8)
            if code not in COORDINATOR_CODES:
                break
        return int(code)

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> KafkaLink:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
