"""Checks a record against `max_request_size`, and keeps a batch of one large record within it.

The broker's limit (`max.message.bytes`) counts a batch as it is stored. So a record counts as the uncompressed batch
that it makes alone: what passes here is not refused there, where the two limits are alike, as they are by default.
"""

from __future__ import annotations

from typing import Protocol

from penstock.errors import MessageTooLargeError
from penstock.record.batch import HEADER_BYTES
from penstock.record.builder import RECORD_OVERHEAD_BYTES, Headers
from penstock.record.codecs import Codec
from penstock.record.varint import encode_varint

LONE_OVERHEAD_BYTES = HEADER_BYTES + RECORD_OVERHEAD_BYTES
"""No record without headers takes more beside its key and value."""
LARGE_BYTES = 256 * 1024
"""A batch smaller than this is far from any limit, and is not made twice."""


class Build(Protocol):
    """Makes the batch with a codec."""

    def __call__(self, *, codec: Codec) -> bytes: ...


def lone_batch_bytes(value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> int:
    """The exact size of the uncompressed batch that has this record alone, which `max.message.bytes` counts."""
    body = 1 + 1 + 1  # attributes, and the deltas of time and offset, which are 0
    body += _data_bytes(key) + _data_bytes(value) + _varint_bytes(len(headers))
    for name, header in headers:
        body += _data_bytes(name.encode()) + _data_bytes(header)
    return HEADER_BYTES + _varint_bytes(body) + body


def _data_bytes(data: bytes | None) -> int:
    """The size of the data with its length, which is -1 for null."""
    return 1 if data is None else _varint_bytes(len(data)) + len(data)


def _varint_bytes(length: int) -> int:
    return len(encode_varint(length))


def check_record_size(value: bytes | None, key: bytes | None, headers: Headers, limit_bytes: int) -> None:
    """MessageTooLargeError for a record whose batch would be larger."""
    size = lone_batch_bytes(value, key, headers)
    if size > limit_bytes:
        raise MessageTooLargeError(
            f"a batch with this record alone has {size} bytes; the limit is max_request_size={limit_bytes}"
        )


def smallest_batch(build: Build, codec: Codec, record_count: int) -> bytes:
    """The batch, compressed unless that makes a large record larger: it could pass the limit by that."""
    encoded = build(codec=codec)
    if codec is Codec.NONE or record_count > 1 or len(encoded) < LARGE_BYTES:
        return encoded
    return min(build(codec=Codec.NONE), encoded, key=len)
