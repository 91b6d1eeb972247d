"""Sets a batch's largest timestamp to what its records say, where the client that made it may not have done so. Pure.

Retention, the roll of segments and look-ups by time go by the largest timestamp in a batch's header. Some clients leave
it at -1 (Sarama up to 1.45), or give the time of the last record (segmentio/kafka-go): then records that are seconds
old are deleted as old ones, and are not found. Kafka's leader computes it for every batch. Here that is done for
batches of clients that are not known to compute it right (broker/kafka/apis/produce.py says which); a batch of others
costs nothing.

The checksum is verified BEFORE, because a header that is changed gets a new one. A batch that is damaged, or whose
records cannot be read, is left as it is: the append and its readers judge it. Not here: which times a topic takes
(time_validation.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from penstock.errors import ApiError
from penstock.record.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    MAX_TIMESTAMP_AT,
    BatchHeader,
    iter_headers,
    verify_crc,
)
from penstock.record.reader import batch_body
from penstock.record.varint import decode_zigzag
from storage.append.key_validation import takes_long
from storage.disk.file_system import Bytes

_TIMESTAMP, _CRC = Struct(">q"), Struct(">I")
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def measuring_takes_long(records: Bytes) -> bool:
    """True if a thread must do it."""
    try:
        return takes_long(iter_headers(records))
    except ApiError:
        return False


def with_largest_times(records: Bytes, max_unpacked_bytes: int) -> tuple[Bytes, int]:
    """The batches with the largest time of their records in each header, and how many bytes were unpacked for that; the
    same object where all were right."""
    found: list[tuple[int, BatchHeader, int]] = []
    unpacked_bytes = 0
    try:
        for position, header in iter_headers(records):
            if header.is_log_append_time or not header.record_count or not verify_crc(records, position, header):
                continue
            data, at, end = batch_body(bytes(records), position, header, max_unpacked_bytes - unpacked_bytes)
            unpacked_bytes += len(data) if header.attributes & CODEC_MASK else 0
            largest_ms = header.base_timestamp_ms + largest_delta(data, at, end, header.record_count)
            if largest_ms != header.max_timestamp_ms and _INT64_MIN <= largest_ms <= _INT64_MAX:
                found.append((position, header, largest_ms))
    except (ApiError, IndexError):
        return records, unpacked_bytes
    return (_rewritten(records, found) if found else records), unpacked_bytes


def largest_delta(data: bytes, at: int, end: int, count: int) -> int:
    """The largest of the time deltas of `count` records at `data[at:end]`. IndexError, or an ApiError, where they are
    none."""
    largest: int | None = None
    for _ in range(count):
        size = data[at]
        at += 1
        if size > 0x7F:
            more = data[at]
            if more < 0x80:
                size = size & 0x7F | more << 7
                at += 1
            else:
                size, at = decode_zigzag(data, at - 1)
        after = at + (size >> 1)
        if size & 1 or after > end:
            raise IndexError(f"a record reaches beyond its batch, near byte {at}")
        time = data[at + 1]
        if time > 0x7F:
            time, _ = decode_zigzag(data, at + 1)
        delta = time >> 1 ^ -(time & 1)
        if largest is None or delta > largest:
            largest = delta
        at = after
    if largest is None or at != end:
        raise IndexError(f"{end - at} bytes are left behind the last record")
    return largest


def _rewritten(records: Bytes, found: Iterable[tuple[int, BatchHeader, int]]) -> bytes:
    data = bytearray(records)
    for position, header, largest_ms in found:
        _TIMESTAMP.pack_into(data, position + MAX_TIMESTAMP_AT, largest_ms)
        with memoryview(data) as view:
            crc = crc32c(view[position + ATTRIBUTES_AT : position + header.size_bytes])
        _CRC.pack_into(data, position + CRC_AT, crc)
    return bytes(data)
