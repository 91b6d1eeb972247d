"""A record on its way into a batch, made from what a caller gives, which is checked here.

Not here: where it goes (producer_core.py), and the batch that takes it (accumulator.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from penstock.client.cluster.arguments import is_whole_number
from penstock.lazy_dataclass import dataclass
from penstock.record.builder import Headers, record_size_bytes_upper

MAX_TIMESTAMP_MS = 2**63 - 1


class NotAppended(Enum):
    """Why a record was not appended."""

    NO_TOPIC = "the topic is not known yet, or is not known to have the partition"
    NO_MEMORY = "the buffer is full"
    BATCH_CLOSED = "the batch was full and is closed now: choose again"


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A record on its way into a batch; `size_bytes` is an upper bound of what it takes there."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None
    size_bytes: int

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int | None) -> PendingRecord:
        size = record_size_bytes_upper(-1 if value is None else len(value), -1 if key is None else len(key), headers)
        return cls(key, value, headers, timestamp_ms, size)


def as_bytes(what: str, value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    remedy = "; encode it: text.encode()" if isinstance(value, str) else ""
    raise TypeError(f"{what} must be bytes or None, not {type(value).__name__}{remedy}")


def as_headers(headers: Any) -> Headers:
    if not headers:
        return ()
    checked = []
    for header in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(header, (tuple, list)) or len(header) != 2 or not isinstance(header[0], str):
            raise TypeError(f"a header must be a pair (str, bytes or None), not {header!r}")
        checked.append((header[0], as_bytes(f"header {header[0]!r}", header[1])))
    return tuple(checked)


def as_timestamp(timestamp_ms: Any) -> int | None:
    if timestamp_ms is None:
        return None
    if not is_whole_number(timestamp_ms):
        raise TypeError(f"timestamp_ms must be an int of milliseconds, not {type(timestamp_ms).__name__}")
    if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
        what = "negative" if timestamp_ms < 0 else "larger than a record can hold"
        raise ValueError(f"timestamp_ms={timestamp_ms} is {what}; it counts milliseconds since 1970")
    return int(timestamp_ms)
