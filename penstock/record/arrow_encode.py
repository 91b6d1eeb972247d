"""Encodes Arrow arrays into a record batch, with numpy: the mirror of arrow.py.

The varints before each key and value are computed for all records in a few vectorised steps, into one buffer of
prefixes, which is an Arrow binary array. Then Arrow interleaves prefixes, keys and values with one `take`; the data
buffer of the result *is* the batch's body. The bytes equal those of the plain builder (a property test checks it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidRecordError, RecordListTooLargeError
from penstock.lazy_dataclass import dataclass
from penstock.record.arrow_buffers import fixed_width
from penstock.record.builder import MAX_BATCH_BYTES, BatchFields, BatchOptions, finish_batch
from penstock.types import NO_TIMESTAMP

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]
_MAX_WIDTH = 10


@dataclass(frozen=True, slots=True)
class _Field:
    """One varint (as zig-zag number) or one constant byte of every record's prefix, and how many bytes it takes."""

    zigzags: npt.NDArray[np.uint64]
    widths: npt.NDArray[np.int64]


def build_batch_from_arrow(
    values: Any,
    *,
    timestamps_ms: Any,
    keys: Any | None = None,
    **options: Unpack[BatchOptions],
) -> bytes:
    """One batch of these binary or string arrays (chunked ones too); nulls stay null.

    `timestamps_ms` is one number for all, or an array of them (numpy, or Arrow integers or timestamps). There are no
    headers here; see `build_batch`.
    """
    fields = BatchFields(**options)
    values = as_binary(values)
    keys = None if keys is None else as_binary(keys)
    count = len(values)
    times = None if isinstance(timestamps_ms, int) else _times(timestamps_ms)
    deltas = _deltas(fields, count)
    for name, column in (("keys", keys), ("timestamps_ms", times), ("offset_deltas", deltas)):
        if column is not None and len(column) != count:
            raise InvalidRecordError(f"{count} values but {len(column)} {name}: columns must have one length")
    if not count:
        return finish_batch(b"", 0, -1, (NO_TIMESTAMP, NO_TIMESTAMP), fields)
    if times is None:
        base_ms = max_ms = int(timestamps_ms)
        time_deltas = np.zeros(count, np.int64)
    else:
        base_ms, max_ms = int(times[0]), int(times.max())
        if max_ms - base_ms >= 1 << 63 or base_ms - int(times.min()) > 1 << 63:
            raise InvalidRecordError("timestamps of one batch are further apart than 64 bits can say")
        time_deltas = times - base_ms
    body = _body(values, keys, time_deltas, deltas)
    return finish_batch(body, count, int(deltas[-1]), (base_ms, max_ms), fields)


def as_binary(column: Any) -> Any:
    """A column of keys or values as the bytes that are sent: one array of Arrow's binary type, strings as UTF-8."""
    if isinstance(column, (pa.Table, pa.RecordBatch)):
        raise TypeError(f"a {type(column).__name__} has columns; give one of them, like table['value']")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    try:
        return column.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRecordError(
            f"a column of type {column.type} is not binary: {error}; make text or bytes of it first"
        ) from error


def _times(timestamps_ms: Any) -> Longs:
    if isinstance(timestamps_ms, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_timestamp(timestamps_ms.type):
            unit = pa.timestamp("ms", timestamps_ms.type.tz)
            timestamps_ms = timestamps_ms.cast(unit, safe=False)
        if timestamps_ms.null_count:
            raise InvalidRecordError("a timestamp is null")
        timestamps_ms = timestamps_ms.cast(pa.int64()).to_numpy()
    return np.asarray(timestamps_ms, np.int64)


def _deltas(fields: BatchFields, count: int) -> Longs:
    if fields.offset_deltas is None:
        return np.arange(count, dtype=np.int64)
    deltas = np.asarray(fields.offset_deltas, np.int64)
    if count and (deltas[0] < 0 or (deltas[1:] <= deltas[:-1]).any()):
        raise InvalidRecordError("offset deltas must be ascending and not negative")
    return deltas


def _body(values: Any, keys: Any | None, time_deltas: Longs, deltas: Longs) -> memoryview:
    """The records as one body, each with length, attributes, time, offset, key length, key, value length, value and
    header count."""
    count = len(values)
    value_lens = _field_lengths(values)
    key_lens = np.full(count, -1, np.int64) if keys is None else _field_lengths(keys)
    time, offset, key, value = (_varints(_zigzag(column)) for column in (time_deltas, deltas, key_lens, value_lens))
    zero = _Field(np.zeros(count, np.uint64), np.ones(count, np.int64))
    sizes = 2 + time.widths + offset.widths + key.widths + value.widths  # 2: attributes, header count
    sizes += np.maximum(key_lens, 0) + np.maximum(value_lens, 0)
    length = _varints(_zigzag(sizes))
    size_bytes = int(sizes.sum() + length.widths.sum())
    if size_bytes > MAX_BATCH_BYTES:
        raise RecordListTooLargeError(f"a batch body of {size_bytes} bytes does not fit the batch length field")
    # The header count, 0, of the record before begins each prefix, so that no piece is needed behind a value.
    before_key = [zero, length, zero, time, offset, key]
    if keys is None:
        pieces = [_prefixes([*before_key, value]), values]
    else:
        pieces = [_prefixes(before_key), keys, _prefixes([value]), values]
    order = np.arange(count * len(pieces), dtype=np.int32).reshape(len(pieces), count).T.ravel()
    joined = pa.concat_arrays(pieces).take(fixed_width(order, pa.int32()))
    body = np.empty(size_bytes, np.uint8)
    body[:-1] = np.frombuffer(joined.buffers()[2], np.uint8)[1:size_bytes]
    body[-1] = 0
    return body.data


def _field_lengths(column: Any) -> Longs:
    lengths = pc.binary_length(column)
    return np.asarray(lengths.fill_null(-1) if lengths.null_count else lengths, np.int64)


def _zigzag(numbers: Longs) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varints(zigzags: npt.NDArray[np.uint64]) -> _Field:
    widths = np.ones(len(zigzags), np.int64)
    largest = int(zigzags.max())
    for width in range(1, _MAX_WIDTH):
        if largest >> 7 * width == 0:
            break
        widths += zigzags >= np.uint64(1 << 7 * width)
    return _Field(zigzags, widths)


def _prefixes(fields: list[_Field]) -> Any:
    """The fields of each record, one behind the other, as an Arrow binary array with an item per record."""
    count = len(fields[0].widths)
    ends = np.cumsum(sum(field.widths for field in fields))
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends
    at = offsets[:-1].astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    for field in fields:
        _write(out, at, field)
        at += field.widths
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _write(out: npt.NDArray[np.uint8], at: Longs, field: _Field) -> None:
    least, most = int(field.widths.min()), int(field.widths.max())
    for place in range(most):
        if place < least:
            zigzags, widths, to = field.zigzags, field.widths, at + place
        else:
            rows = np.flatnonzero(field.widths > place)
            zigzags, widths, to = field.zigzags[rows], field.widths[rows], at[rows] + place
        byte = (zigzags >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        if place < most - 1:
            byte |= (widths > place + 1).astype(np.uint8) << 7
        out[to] = byte
