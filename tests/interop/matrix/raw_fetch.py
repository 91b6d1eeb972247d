"""The first record batch of a partition as the broker sends it: a Fetch request of version 4, written by hand.

It uses no client and none of ours, so that it sees what really lies in the log.
"""

from __future__ import annotations

import socket
import struct

FETCH, VERSION = 1, 4
TIMEOUT_S = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ATTRIBUTES_AT = 21
"""Before them: base offset 8, length 4, leader epoch 4, magic 1, checksum 4."""


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def first_batch(address: str, topic: str, partition: int) -> bytes:
    """The record bytes that a fetch from the first offset brings, from the leader at host:port."""
    body = struct.pack(">iiiib", -1, 1000, 1, 1 << 20, 0)
    body += struct.pack(">i", 1) + _text(topic) + struct.pack(">iiqi", 1, partition, 0, 1 << 20)
    frame = struct.pack(">hhi", FETCH, VERSION, 7) + _text("raw") + body
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as stream:
            answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    # correlation id, throttle time, one topic with its name, one partition: its number, error, two offsets, and
    # transactions that were aborted, of which there are none.
    at = 4 + 4 + 4 + 2 + len(topic) + 4
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error or aborted > 0:
        raise RuntimeError(f"a raw fetch of {topic}-{partition} got error {error}, {aborted} aborted")
    return answer[at + 26 + 4 :]


def codec_of(address: str, topic: str, partition: int) -> str:
    """The compression of the first batch."""
    return CODECS[first_batch(address, topic, partition)[ATTRIBUTES_AT + 1] & 7]
