"""Reads the size at the head of a frame, and names the other protocol where a stranger speaks one. Pure.

    size     int32, of the bytes that follow; from 1 to socket.request.max.bytes

The first bytes of HTTP, TLS, gRPC and SSH would be sizes above 300 MB, so they are known by two bytes. Not here: the
bytes of the frame (incoming_frame.py, frame_connection.py).
"""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidRequestError

SIZE_BYTES: Final = 4
_STRANGERS: Final = {
    b"\x16\x03": "TLS; this listener speaks plain text (listener.security.protocol.map)",
    b"GE": "HTTP",
    b"PO": "HTTP",
    b"PU": "HTTP",
    b"HE": "HTTP",
    b"OP": "HTTP",
    b"PR": "gRPC or HTTP/2; Penstock's own clients use the listener BROKER",
    b"SS": "SSH",
}
"""The other protocols, by their first two bytes."""


def frame_size(head: bytes | bytearray, size_max: int) -> int:
    """The size that the first SIZE_BYTES of `head` tell; InvalidRequestError if no frame may have it."""
    size = int.from_bytes(head[:SIZE_BYTES], "big", signed=True)
    if 0 < size <= size_max:
        return size
    stranger = _STRANGERS.get(bytes(head[:2]))
    if stranger is not None:
        raise InvalidRequestError(f"it speaks {stranger}")
    raise InvalidRequestError(f"a frame of {size} bytes; must be from 1 to {size_max} (socket.request.max.bytes)")
