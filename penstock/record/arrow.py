"""Decodes a fetched buffer into Arrow columns, all its batches at once, with numpy.

The records are found, and their varints decoded, in arrow_varints.py. Arrow copies keys and values once: a binary array
over the raw bytes has start and end of each field as its offsets, and every second item of it is taken.

The vectorised code accepts only bytes that it has proved right. At any doubt (a varint too wide, a field that ends in
the wrong place, offsets that do not ascend) the plain reader decides, so damage is judged and described in one place.
Encoding is in arrow_encode.py. Only the four `arrow` modules import numpy and pyarrow (the extra `arrow`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.errors import MessageTooLargeError
from penstock.lazy_dataclass import dataclass
from penstock.record.arrow_buffers import booleans, fixed_width
from penstock.record.arrow_encode import build_batch_from_arrow
from penstock.record.arrow_varints import DoubtError, lengths, record_starts, unzigzag, varints
from penstock.record.batch import HEADER_BYTES, BatchHeader, Buffer
from penstock.record.codecs import Codec
from penstock.record.decoding import HeaderTuple, decode_headers
from penstock.record.reader import (
    CREATE_TIME,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    LOG_APPEND_TIME,
    TooLargeTogetherError,
    batch_body,
    columns_of_batch,
    wanted_batches,
)

__all__ = ["HEADERS_TYPE", "ArrowColumns", "build_batch_from_arrow", "to_arrow_columns"]

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""A record without headers is null here, not an empty list, as in Spark's Kafka source."""
MAX_ARRAY_BYTES = (1 << 31) - 1
"""Arrow's binary type has 32-bit offsets."""
GROUP_BYTES = 64 * 1024 * 1024
"""Compressed batches are unpacked and decoded in groups of about this size."""
SAFE_TIME_MS = 1 << 62
"""A base timestamp nearer to the end of 64 bits goes to the plain reader, which checks each sum."""


@dataclass(frozen=True, slots=True)
class ArrowColumns:
    """Records as parallel columns; nulls stay null. `headers` (of HEADERS_TYPE) is None unless they were asked for."""

    keys: Any
    values: Any
    offsets: Longs
    timestamps_ms: Longs
    timestamp_types: npt.NDArray[np.int32]
    headers: Any | None

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class _Group:
    """Batches whose records are in one buffer: where each one's are, and the header that goes with them."""

    data: bytes
    headers: list[BatchHeader]
    bounds: list[tuple[int, int]]


def to_arrow_columns(
    buffer: Buffer,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    check_crc: bool = True,
    include_headers: bool = False,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    max_unpacked_bytes: int | None = None,
) -> ArrowColumns:
    """The data records with `from_offset <= offset < to_offset`, as `read_columns` gives them, and refuses them."""
    data = bytes(buffer)
    batches = wanted_batches(data, from_offset, to_offset, check_crc=check_crc)
    parts = [
        _within(_decode_group(group, include_headers), from_offset, to_offset)
        for group in _groups(data, batches, max_decompressed_bytes, max_unpacked_bytes)
    ]
    return _joined(parts, include_headers)


def _groups(
    data: bytes, batches: list[tuple[int, BatchHeader]], max_decompressed_bytes: int, max_unpacked_bytes: int | None
) -> Iterator[_Group]:
    """Uncompressed batches stay where they are, in one group; otherwise bodies are copied together as they unpack."""
    if len(data) <= MAX_ARRAY_BYTES and all(header.codec == Codec.NONE for _, header in batches):
        if batches:
            bounds = [(at + HEADER_BYTES, at + header.size_bytes) for at, header in batches]
            yield _Group(data, [header for _, header in batches], bounds)
        return
    bodies: list[bytes] = []
    headers: list[BatchHeader] = []
    bounds, size_bytes, unpacked_bytes = [], 0, 0
    for at, header in batches:
        body, start, end = batch_body(data, at, header, max_decompressed_bytes)
        unpacked_bytes += end - start
        if max_unpacked_bytes is not None and unpacked_bytes > max_unpacked_bytes and at != batches[0][0]:
            raise TooLargeTogetherError(max_unpacked_bytes, at)
        if bodies and size_bytes + end - start > GROUP_BYTES:
            yield _Group(b"".join(bodies), headers, bounds)
            bodies, headers, bounds, size_bytes = [], [], [], 0
        bodies.append(body[start:end])
        headers.append(header)
        bounds.append((size_bytes, size_bytes + end - start))
        size_bytes += end - start
    if bodies:
        yield _Group(b"".join(bodies), headers, bounds)


def _decode_group(group: _Group, include_headers: bool) -> ArrowColumns:
    try:
        return _decode_vectorised(group, include_headers)
    except (DoubtError, IndexError):
        parts = [
            _decode_plain(group.data, header, bounds, include_headers)
            for header, bounds in zip(group.headers, group.bounds, strict=True)
        ]
        return _joined(parts, include_headers)


def _decode_plain(data: bytes, header: BatchHeader, bounds: tuple[int, int], include_headers: bool) -> ArrowColumns:
    columns = columns_of_batch(data, *bounds, header)
    count = len(columns)
    return ArrowColumns(
        keys=pa.nulls(count, pa.binary()) if columns.keys is None else pa.array(columns.keys, pa.binary()),
        values=pa.array(columns.values, pa.binary()),
        offsets=np.array(columns.offsets, np.int64),
        timestamps_ms=np.array(columns.timestamps_ms, np.int64),
        timestamp_types=np.array(columns.timestamp_types, np.int32),
        headers=_headers_array(columns.headers or [()] * count) if include_headers else None,
    )


def _decode_vectorised(group: _Group, include_headers: bool) -> ArrowColumns:
    data, raw = group.data, np.frombuffer(group.data, np.uint8)
    starts = np.concatenate(
        [
            record_starts(data, start, end, header.record_count)
            for header, (start, end) in zip(group.headers, group.bounds, strict=True)
        ]
    )
    sizes, at = varints(raw, starts)
    ends = at + lengths(sizes, nullable=False)
    times, at = varints(raw, at + 1)  # the byte between is the record's attributes
    deltas, at = varints(raw, at)
    keys, keys_at = varints(raw, at)
    key_ends = keys_at + lengths(keys)
    values, values_at = varints(raw, key_ends)
    value_ends = values_at + lengths(values)
    # The header count follows the value: 0 and then nothing, or more and then headers, unread here, up to the end.
    has_headers = raw.take(value_ends, mode="clip") != 0
    wrong_ends = value_ends + 1 != ends
    if wrong_ends.any() and (wrong_ends & (~has_headers | (value_ends >= ends))).any():
        raise DoubtError
    headers = None
    if include_headers:
        headers = _read_headers(data, has_headers, value_ends, ends)
    counts = np.array([header.record_count for header in group.headers])
    return ArrowColumns(
        keys=_binary_array(data, keys_at, key_ends, keys == 1),
        values=_binary_array(data, values_at, value_ends, values == 1),
        offsets=_offsets(group, counts, unzigzag(deltas)),
        timestamps_ms=_timestamps(group, counts, unzigzag(times)),
        timestamp_types=np.repeat(
            np.array([LOG_APPEND_TIME if h.is_log_append_time else CREATE_TIME for h in group.headers], np.int32),
            counts,
        ),
        headers=headers,
    )


def _offsets(group: _Group, counts: npt.NDArray[np.int64], deltas: Longs) -> Longs:
    last_deltas = np.array([header.last_offset_delta for header in group.headers], np.int64)
    if deltas.min() < 0 or (deltas > np.repeat(last_deltas, counts)).any():
        raise DoubtError
    falls = np.flatnonzero(deltas[1:] <= deltas[:-1]) + 1
    if not np.isin(falls, np.cumsum(counts)[:-1], assume_unique=True).all():
        raise DoubtError
    return np.repeat(np.array([header.base_offset for header in group.headers], np.int64), counts) + deltas


def _timestamps(group: _Group, counts: npt.NDArray[np.int64], deltas: Longs) -> Longs:
    if any(abs(header.base_timestamp_ms) > SAFE_TIME_MS for header in group.headers):
        raise DoubtError
    times = np.repeat(np.array([header.base_timestamp_ms for header in group.headers], np.int64), counts) + deltas
    is_append = np.array([header.is_log_append_time for header in group.headers])
    if is_append.any():
        append_times = np.array([header.max_timestamp_ms for header in group.headers], np.int64)
        times = np.where(np.repeat(is_append, counts), np.repeat(append_times, counts), times)
    return times


def _binary_array(data: bytes, starts: Longs, ends: Longs, nulls: npt.NDArray[np.bool_]) -> Any:
    """Every `data[start:end]` as one Arrow array. Positions ascend, so starts and ends together are Arrow offsets."""
    count = len(starts)
    has_nulls = bool(nulls.any())
    if has_nulls and nulls.all():
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    spans = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return spans.take(fixed_width(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32(), nulls if has_nulls else None))


def _read_headers(data: bytes, has_headers: npt.NDArray[np.bool_], at: Longs, ends: Longs) -> Any:
    rows: list[HeaderTuple] = [()] * len(at)
    for row in np.flatnonzero(has_headers).tolist():
        rows[row], after = decode_headers(data, int(at[row]))
        if after != ends[row]:
            raise DoubtError
    return _headers_array(rows)


def _headers_array(rows: Sequence[HeaderTuple]) -> Any:
    """Built from columns: an object for each header would be a hundred times the bytes of a short one."""
    names: list[str] = []
    values: list[bytes | None] = []
    bounds = [0]
    for row in rows:
        for name, value in row:
            names.append(name)
            values.append(value)
        bounds.append(len(names))
    entries = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    nulls = pa.array([not row for row in rows], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), entries, type=HEADERS_TYPE, mask=nulls)


def _within(part: ArrowColumns, from_offset: int, to_offset: int | None) -> ArrowColumns:
    wanted = part.offsets >= from_offset
    if to_offset is not None:
        wanted &= part.offsets < to_offset
    if wanted.all():
        return part
    mask = booleans(wanted)
    return replace(
        part,
        keys=part.keys.filter(mask),
        values=part.values.filter(mask),
        offsets=part.offsets[wanted],
        timestamps_ms=part.timestamps_ms[wanted],
        timestamp_types=part.timestamp_types[wanted],
        headers=None if part.headers is None else part.headers.filter(mask),
    )


def _joined(parts: list[ArrowColumns], include_headers: bool) -> ArrowColumns:
    if len(parts) == 1:
        return parts[0]
    try:
        return ArrowColumns(
            keys=pa.concat_arrays([part.keys for part in parts] or [pa.nulls(0, pa.binary())]),
            values=pa.concat_arrays([part.values for part in parts] or [pa.nulls(0, pa.binary())]),
            offsets=np.concatenate([part.offsets for part in parts] or [np.empty(0, np.int64)]),
            timestamps_ms=np.concatenate([part.timestamps_ms for part in parts] or [np.empty(0, np.int64)]),
            timestamp_types=np.concatenate([part.timestamp_types for part in parts] or [np.empty(0, np.int32)]),
            headers=pa.concat_arrays([part.headers for part in parts] or [pa.nulls(0, HEADERS_TYPE)])
            if include_headers
            else None,
        )
    except pa.ArrowInvalid as error:
        raise MessageTooLargeError(f"the records do not fit one Arrow array; fetch fewer bytes: {error}") from error
