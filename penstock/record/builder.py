"""Builds a record batch from columns, in bulk.

There is no object per record: each record becomes a few pieces (varints from tables, and the caller's own bytes,
uncopied), and one `b"".join` makes the body. If all values have one length, all keys have one length, and all records
have one timestamp, the pieces around a value differ only in the offset. They are then two constants and a table.

The builder makes the bytes of a batch; the producer's accumulator decides how many records it has, and when it is sent.
The base offset is 0 unless the caller gives one, because the log sets the placement (see batch.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import TypedDict, Unpack

from penstock.errors import InvalidRecordError, RecordListTooLargeError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
)
from penstock.record.codecs import Codec, compress
from penstock.record.varint import TABLE_LIMIT, VARINTS, WIDTH_LIMITS, encode_varint
from penstock.types import NO_EPOCH, NO_TIMESTAMP

Headers = Sequence[tuple[str, bytes | None]]
HeadersLike = Headers | Mapping[str, bytes | None]
"""Headers as users give them. A dict has each name once; the wire allows more."""

MAX_BATCH_BYTES = (1 << 31) - 1 + LENGTH_OVERHEAD_BYTES
"""The largest batch that the batch length field can tell."""
_NULL = VARINTS[-1]
_NO_HEADERS = VARINTS[0]
_ATTRIBUTES = b"\x00"
_MIDS_AT_BASE_TIME = [_ATTRIBUTES + VARINTS[0] + VARINTS[delta] for delta in range(TABLE_LIMIT)]
"""Attributes, timestamp delta 0 and offset delta, by offset delta: the usual record of a batch with one timestamp."""


class BatchOptions(TypedDict, total=False):
    """The fields of a batch that are not its records; see `BatchFields` for the defaults."""

    codec: Codec
    base_offset: int
    leader_epoch: int
    is_control: bool
    is_transactional: bool
    is_log_append_time: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    offset_deltas: Sequence[int] | None
    last_offset_delta: int | None


@dataclass(frozen=True, slots=True)
class BatchFields:
    """`BatchOptions` with every default.

    `offset_deltas` and `last_offset_delta` are for compaction, which takes records out of a batch and leaves the others
    where they are: None means dense, and the last record's.
    """

    codec: Codec = Codec.NONE
    base_offset: int = 0
    leader_epoch: int = NO_EPOCH
    is_control: bool = False
    is_transactional: bool = False
    is_log_append_time: bool = False
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    offset_deltas: Sequence[int] | None = None
    last_offset_delta: int | None = None

    def attributes(self) -> int:
        return (
            self.codec
            | (CONTROL_BIT if self.is_control else 0)
            | (TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (LOG_APPEND_TIME_BIT if self.is_log_append_time else 0)
        )


def build_batch(
    values: Sequence[bytes | None],
    *,
    timestamps_ms: int | Sequence[int],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    **options: Unpack[BatchOptions],
) -> bytes:
    """One batch of these records. Columns are parallel; `keys=None` means that every key is null."""
    fields = BatchFields(**options)
    count = len(values)
    _check_columns(count, keys=keys, headers=headers, timestamps_ms=timestamps_ms, offset_deltas=fields.offset_deltas)
    deltas = range(count) if fields.offset_deltas is None else _checked_deltas(fields.offset_deltas)
    if not isinstance(timestamps_ms, int) and count and timestamps_ms.count(timestamps_ms[0]) == count:
        timestamps_ms = timestamps_ms[0]
    if isinstance(timestamps_ms, int):
        base_ms = max_ms = timestamps_ms
        mids = _mids_of_one_time(deltas)
    else:
        base_ms, max_ms = (timestamps_ms[0], max(timestamps_ms)) if count else (NO_TIMESTAMP, NO_TIMESTAMP)
        mids = _mids(timestamps_ms, base_ms, deltas)
    body = None
    if headers is None and isinstance(timestamps_ms, int) and isinstance(deltas, range):
        body = _same_size_body(mids, keys, values)
    if body is None:
        body = _any_size_body(mids, keys, values, headers)
    last_delta = deltas[-1] if count else -1
    return finish_batch(body, count, last_delta, (base_ms, max_ms), fields)


def finish_batch(body: Buffer, count: int, last_delta: int, times_ms: tuple[int, int], fields: BatchFields) -> bytes:
    """The batch of an encoded body: compresses it and puts the header before it. Shared with arrow_encode.py."""
    if fields.last_offset_delta is not None:
        if fields.last_offset_delta < last_delta:
            raise InvalidRecordError(f"last offset delta {fields.last_offset_delta} is below a record's: {last_delta}")
        last_delta = fields.last_offset_delta
    if last_delta < 0:
        raise InvalidRecordError("a batch needs a record; only compaction, which gives last_offset_delta, leaves none")
    if fields.codec != Codec.NONE:
        body = compress(fields.codec, body)
    header = BatchHeader(
        base_offset=fields.base_offset,
        batch_length=0,
        leader_epoch=fields.leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=fields.attributes(),
        last_offset_delta=last_delta,
        base_timestamp_ms=times_ms[0],
        max_timestamp_ms=times_ms[1],
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        record_count=count,
    )
    if len(body) > MAX_BATCH_BYTES - HEADER_BYTES:
        raise RecordListTooLargeError(f"a batch body of {len(body)} bytes does not fit the batch length field")
    return pack_batch(header, body)


def record_size_bytes_upper(value_len: int, key_len: int = -1, headers: Headers = ()) -> int:
    """No record with these lengths (-1: null) is larger, whatever its offset and timestamp."""
    size_bytes = RECORD_OVERHEAD_BYTES + max(value_len, 0) + max(key_len, 0)
    for name, value in headers:
        size_bytes += 2 * _INT_BYTES + len(name.encode()) + (0 if value is None else len(value))
    return size_bytes


_INT_BYTES = 5
_LONG_BYTES = 10
RECORD_OVERHEAD_BYTES = 1 + 5 * _INT_BYTES + _LONG_BYTES
"""Attributes; at their longest the varints of length, offset, key, value and header count; and of the timestamp."""


def _check_columns(count: int, **columns: object) -> None:
    for name, column in columns.items():
        if isinstance(column, Sequence) and len(column) != count:
            raise InvalidRecordError(f"{count} values but {len(column)} {name}: columns must have one length")


def _checked_deltas(deltas: Sequence[int]) -> Sequence[int]:
    if any(after <= before for before, after in pairwise((-1, *deltas))):
        raise InvalidRecordError("offset deltas must be ascending and not negative")
    return deltas


def _mids_of_one_time(deltas: Sequence[int]) -> list[bytes]:
    """The middles of records (attributes, timestamp delta, offset delta) where no timestamp differs from the base."""
    if isinstance(deltas, range) and len(deltas) <= TABLE_LIMIT:
        return _MIDS_AT_BASE_TIME[: len(deltas)]
    start = _ATTRIBUTES + VARINTS[0]
    return [start + VARINTS[delta] for delta in deltas]


def _mids(timestamps_ms: Sequence[int], base_ms: int, deltas: Sequence[int]) -> list[bytes]:
    starts = {time_ms: _ATTRIBUTES + encode_varint(time_ms - base_ms) for time_ms in set(timestamps_ms)}
    return [starts[time_ms] + VARINTS[delta] for time_ms, delta in zip(timestamps_ms, deltas, strict=True)]


def _same_size_body(
    mids: list[bytes], keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
) -> bytes | None:
    """The body where keys have one length and values have one length (or are null), else None."""
    value_len, key_len = _common_length(values), -1 if keys is None else _common_length(keys)
    if value_len is None or key_len is None:
        return None
    key_length, value_length = VARINTS[key_len], VARINTS[value_len]
    pieces: list[bytes | None] = []
    start = b""
    for width, (low, high) in enumerate(_width_segments(len(mids)), start=1):
        # attributes, timestamp delta 0, offset delta, key, value, header count
        size = 2 + width + len(key_length) + max(key_len, 0) + len(value_length) + max(value_len, 0) + 1
        head, tail = VARINTS[size], key_length if key_len >= 0 else key_length + value_length
        segment: list[bytes | None] = [None] * ((high - low) * (2 if key_len < 0 else 4))
        # The header count, 0, of the record before goes into the piece that begins the next one.
        heads: list[bytes | None] = [b"\x00" + head + mid + tail for mid in mids[low:high]]
        heads[0] = start + head + mids[low] + tail
        start = _NO_HEADERS
        step = len(segment) // (high - low)
        segment[0::step] = heads
        if keys is not None and key_len >= 0:
            segment[1::step] = keys[low:high]
            segment[2::step] = [value_length] * (high - low)
        segment[step - 1 :: step] = values[low:high] if value_len >= 0 else [b""] * (high - low)
        pieces += segment
    pieces.append(start)
    return b"".join(pieces)  # type: ignore[arg-type]


def _width_segments(count: int) -> Iterable[tuple[int, int]]:
    """The ranges of offset deltas whose varints have one byte, two bytes, and so on."""
    low = 0
    for high in WIDTH_LIMITS:
        if low >= count:
            return
        yield low, min(high, count)
        low = high


def _common_length(column: Sequence[bytes | None]) -> int | None:
    """The length of every item, -1 where all are null, None where they differ."""
    try:
        lengths = set(map(len, column))  # type: ignore[arg-type]
    except TypeError:
        return -1 if all(item is None for item in column) else None
    return lengths.pop() if len(lengths) == 1 else None


def _any_size_body(
    mids: list[bytes],
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    headers: Sequence[Headers] | None,
) -> bytes:
    varints = VARINTS
    trailers: Iterable[bytes] = repeat(_NO_HEADERS) if headers is None else map(_encode_headers, headers)
    pieces: list[bytes] = []
    if keys is None:
        for mid, value, trailer in zip(mids, values, trailers, strict=False):
            if value is None:
                prefix, value = mid + b"\x01\x01", b""
            else:
                prefix = mid + b"\x01" + varints[len(value)]
            pieces += (varints[len(prefix) + len(value) + len(trailer)] + prefix, value, trailer)
        return b"".join(pieces)
    for mid, key, value, trailer in zip(mids, keys, values, trailers, strict=False):
        prefix = mid + _NULL if key is None else mid + varints[len(key)] + key
        if value is None:
            prefix, value = prefix + _NULL, b""
        else:
            prefix += varints[len(value)]
        pieces += (varints[len(prefix) + len(value) + len(trailer)] + prefix, value, trailer)
    return b"".join(pieces)


def _encode_headers(headers: Headers) -> bytes:
    if not headers:
        return _NO_HEADERS
    parts = [VARINTS[len(headers)]]
    for name, value in headers:
        name_bytes = name.encode()
        parts += (VARINTS[len(name_bytes)], name_bytes)
        parts += (_NULL,) if value is None else (VARINTS[len(value)], value)
    return b"".join(parts)
