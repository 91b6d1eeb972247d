"""The first record batch of a partition as the broker sends it: a Fetch request of version 4, written by hand.

It uses no client and none of ours, so that it sees what really lies in the log. At a cluster with log-ins it says name
and password by PLAIN, over TLS, by hand as well.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import IO

FETCH, VERSION = 1, 4
SASL_HANDSHAKE, SASL_AUTHENTICATE = (17, 1), (36, 0)
TIMEOUT_S = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ATTRIBUTES_AT = 21
"""Before them: base offset 8, length 4, leader epoch 4, magic 1, checksum 4."""


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def first_batch(address: str, topic: str, partition: int, login: Mapping[str, str]) -> bytes:
    """The record bytes that a fetch from the first offset brings, from the leader at host:port."""
    body = struct.pack(">iiiib", -1, 1000, 1, 1 << 20, 0)
    body += struct.pack(">i", 1) + _text(topic) + struct.pack(">iiqi", 1, partition, 0, 1 << 20)
    host, _, port = address.rpartition(":")
    with _connected(host, int(port), login) as connection, connection.makefile("rwb") as stream:
        if login:
            _log_in(stream, login["INTEROP_USERNAME"], login["INTEROP_PASSWORD"])
        answer = _asked(stream, FETCH, VERSION, body)
    # correlation id, throttle time, one topic with its name, one partition: its number, error, two offsets, and
    # transactions that were aborted, of which there are none.
    at = 4 + 4 + 4 + 2 + len(topic) + 4
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error or aborted > 0:
        raise RuntimeError(f"a raw fetch of {topic}-{partition} got error {error}, {aborted} aborted")
    return answer[at + 26 + 4 :]


def _connected(host: str, port: int, login: Mapping[str, str]) -> socket.socket:
    plain = socket.create_connection((host, port), TIMEOUT_S)
    if not login:
        return plain
    return ssl.create_default_context(cafile=login["INTEROP_TLS_CA"]).wrap_socket(plain, server_hostname=host)


def _log_in(stream: IO[bytes], username: str, password: str) -> None:
    shown = f"\0{username}\0{password}".encode()
    for (api, version), body in (
        (SASL_HANDSHAKE, _text("PLAIN")),
        (SASL_AUTHENTICATE, struct.pack(">i", len(shown)) + shown),
    ):
        (error,) = struct.unpack_from(">h", _asked(stream, api, version, body), 4)
        if error:
            raise RuntimeError(f"a log-in by hand got error {error} of API {api}")


def _asked(stream: IO[bytes], api: int, version: int, body: bytes) -> bytes:
    """The answer, from its correlation id on."""
    frame = struct.pack(">hhi", api, version, 7) + _text("raw") + body
    stream.write(struct.pack(">i", len(frame)) + frame)
    stream.flush()
    return stream.read(struct.unpack(">i", stream.read(4))[0])


def codec_of(address: str, topic: str, partition: int, login: Mapping[str, str]) -> str:
    """The compression of the first batch."""
    return CODECS[first_batch(address, topic, partition, login)[ATTRIBUTES_AT + 1] & 7]
