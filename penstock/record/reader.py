"""Reads the records of a fetched buffer as columns: many batches in, one set of parallel lists out.

`read_columns` is for consumers; `read_records` makes an object of each row, for callers that want few. Checksums are
verified unless the caller turns that off. Batches wholly outside the wanted offsets are skipped unread. Control batches
are never returned. A partial last batch is left for the next fetch. Offsets are a `range` if they are dense, which is
nearly always.

Aborted transactions are not known here: a caller that wants committed data only filters by producer id itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import chain, compress
from typing import NamedTuple

from penstock.errors import CorruptMessageError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES, BatchHeader, Buffer, iter_headers, verify_crc
from penstock.record.codecs import Codec, decompress
from penstock.record.decoding import DecodedRecords, HeaderTuple, decode_records
from penstock.record.varint import UNZIGZAG
from penstock.record.verifier import WRONG_CHECKSUM, at_offset

DEFAULT_MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""The limit of one unpacked batch: far above an honest one (message.max.bytes is 1 MiB), far below a node's memory."""
CREATE_TIME = 0
LOG_APPEND_TIME = 1
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class TooLargeTogetherError(PenstockError):
    """Batches that may each be read have too many bytes together without compression; read fewer at a time."""

    def __init__(self, bytes_max: int, at: int) -> None:
        super().__init__(f"more than {bytes_max} bytes without compression")
        self.at = at
        """The position of the batch that is one too many."""


class Record(NamedTuple):
    """One record as users see it."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: HeaderTuple


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records as parallel columns. `keys` is None where every key is null, `headers` where no record has any."""

    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    timestamp_types: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[HeaderTuple] | None
    unpacked_bytes: int = field(default=0, compare=False)
    """The bytes of the batches that they are of, without compression."""

    def __len__(self) -> int:
        return len(self.values)


NO_RECORDS = RecordColumns(range(0), (), (), (), None, None)


def read_columns(
    buffer: Buffer,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    check_crc: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    max_unpacked_bytes: int | None = None,
) -> RecordColumns:
    """The data records with `from_offset <= offset < to_offset`. TooLargeTogetherError as soon as several batches have
    more than `max_unpacked_bytes` without compression: small batches may each unpack to a thousand times their size."""
    data = bytes(buffer)
    parts: list[RecordColumns] = []
    unpacked_bytes = 0
    for at, header in wanted_batches(data, from_offset, to_offset, check_crc=check_crc):
        body, start, end = batch_body(data, at, header, max_decompressed_bytes)
        unpacked_bytes += end - start
        if max_unpacked_bytes is not None and unpacked_bytes > max_unpacked_bytes and parts:
            raise TooLargeTogetherError(max_unpacked_bytes, at)
        part = columns_of_batch(body, start, end, header)
        if header.base_offset < from_offset or (to_offset is not None and header.next_offset > to_offset):
            part = _within(part, from_offset, to_offset)
        if part.values:
            parts.append(part)
    return replace(_joined(parts), unpacked_bytes=unpacked_bytes)


def read_records(
    buffer: Buffer,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    check_crc: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """The records of `read_columns`, as objects."""
    columns = read_columns(
        buffer,
        from_offset=from_offset,
        to_offset=to_offset,
        check_crc=check_crc,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    count = len(columns)
    keys = columns.keys if columns.keys is not None else (None,) * count
    headers = columns.headers if columns.headers is not None else ((),) * count
    rows = zip(
        columns.offsets, columns.timestamps_ms, columns.timestamp_types, keys, columns.values, headers, strict=True
    )
    return list(map(Record._make, rows))


def wanted_batches(
    data: bytes, from_offset: int, to_offset: int | None, *, check_crc: bool, with_control: bool = False
) -> list[tuple[int, BatchHeader]]:
    """Position and header of the whole data batches that may hold wanted offsets, verified. Shared."""
    wanted: list[tuple[int, BatchHeader]] = []
    for at, header in iter_headers(data):
        if header.next_offset <= from_offset or (to_offset is not None and header.base_offset >= to_offset):
            continue
        if check_crc and not verify_crc(data, at, header):
            raise CorruptMessageError(at_offset(header.base_offset, WRONG_CHECKSUM))
        if header.base_offset < 0 or header.last_offset > _INT64_MAX:
            raise CorruptMessageError(f"record batch at byte {at}: base offset {header.base_offset} is out of range")
        if header.record_count and (with_control or not header.is_control):
            wanted.append((at, header))
    return wanted


def batch_body(data: bytes, at: int, header: BatchHeader, max_decompressed_bytes: int) -> tuple[bytes, int, int]:
    """The place of a batch's records: a buffer, and the start and end in it. Only compressed records are copied."""
    start, end = at + HEADER_BYTES, at + header.size_bytes
    if header.codec == Codec.NONE:
        return data, start, end
    with memoryview(data) as view:
        body = decompress(header.codec, view[start:end], max_decompressed_bytes)
    return body, 0, len(body)


def columns_of_batch(body: bytes, start: int, end: int, header: BatchHeader) -> RecordColumns:
    """The records of one batch, which are in `body[start:end]`. Shared with arrow.py."""
    records = decode_records(body, start, end, header.record_count, header.last_offset_delta)
    count, base = len(records.values), header.base_offset
    deltas = records.offset_deltas
    return RecordColumns(
        offsets=range(base + deltas.start, base + deltas.stop)
        if isinstance(deltas, range)
        else [base + delta for delta in deltas],
        timestamps_ms=_timestamps(header, records),
        timestamp_types=[LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME] * count,
        values=records.values,
        keys=None if records.keys.count(None) == count else records.keys,
        headers=[records.headers.get(row, ()) for row in range(count)] if records.headers else None,
    )


def _timestamps(header: BatchHeader, records: DecodedRecords) -> list[int]:
    zigzags, base = records.time_zigzags, header.base_timestamp_ms
    if header.is_log_append_time:
        return [header.max_timestamp_ms] * len(zigzags)
    first = zigzags[0]
    if zigzags.count(first) == len(zigzags):
        times = [base + (first >> 1 ^ -(first & 1))] * len(zigzags)
        low = high = times[0]
    else:
        widest = max(zigzags)
        if widest < len(UNZIGZAG):
            times = [base + UNZIGZAG[zigzag] for zigzag in zigzags]
        else:
            times = [base + (zigzag >> 1 ^ -(zigzag & 1)) for zigzag in zigzags]
        low, high = base - (widest + 1 >> 1), base + (widest + 1 >> 1)
    if (low < _INT64_MIN or high > _INT64_MAX) and (min(times) < _INT64_MIN or max(times) > _INT64_MAX):
        raise CorruptMessageError(f"record batch with base offset {header.base_offset}: a timestamp exceeds 64 bits")
    return times


def _within(part: RecordColumns, from_offset: int, to_offset: int | None) -> RecordColumns:
    stop = _INT64_MAX + 1 if to_offset is None else to_offset
    if isinstance(part.offsets, range):
        first = max(from_offset - part.offsets.start, 0)
        rows = slice(first, max(stop - part.offsets.start, first))
        return RecordColumns(
            offsets=part.offsets[rows],
            timestamps_ms=part.timestamps_ms[rows],
            timestamp_types=part.timestamp_types[rows],
            values=part.values[rows],
            keys=None if part.keys is None else part.keys[rows],
            headers=None if part.headers is None else part.headers[rows],
        )
    chosen = [from_offset <= offset < stop for offset in part.offsets]
    return RecordColumns(
        offsets=list(compress(part.offsets, chosen)),
        timestamps_ms=list(compress(part.timestamps_ms, chosen)),
        timestamp_types=list(compress(part.timestamp_types, chosen)),
        values=list(compress(part.values, chosen)),
        keys=None if part.keys is None else list(compress(part.keys, chosen)),
        headers=None if part.headers is None else list(compress(part.headers, chosen)),
    )


def _joined(parts: list[RecordColumns]) -> RecordColumns:
    if len(parts) < 2:
        return parts[0] if parts else NO_RECORDS
    flatten = chain.from_iterable
    keys: list[bytes | None] | None = None
    if any(part.keys is not None for part in parts):
        keys = list(flatten(part.keys if part.keys is not None else (None,) * len(part) for part in parts))
    headers: list[HeaderTuple] | None = None
    if any(part.headers is not None for part in parts):
        headers = list(flatten(part.headers if part.headers is not None else ((),) * len(part) for part in parts))
    return RecordColumns(
        offsets=_joined_offsets(parts),
        timestamps_ms=list(flatten(part.timestamps_ms for part in parts)),
        timestamp_types=list(flatten(part.timestamp_types for part in parts)),
        values=list(flatten(part.values for part in parts)),
        keys=keys,
        headers=headers,
    )


def _joined_offsets(parts: list[RecordColumns]) -> Sequence[int]:
    joined = parts[0].offsets
    for part in parts[1:]:
        offsets = part.offsets
        if not (isinstance(joined, range) and isinstance(offsets, range) and offsets.start == joined.stop):
            return list(chain.from_iterable(part.offsets for part in parts))
        joined = range(joined.start, offsets.stop)
    return joined
