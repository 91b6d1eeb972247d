"""Decodes the records of one batch, in bulk: the inner half of reader.py.

Records of one size are cut out at C speed (equal_run.py). Other records are decoded one by one, with the short varints
inline. After each failed guess that records have one size, four times as many are decoded one by one before the next
guess. So guessing costs little if it never succeeds.

The loop begins like that of row_scan.py, which steps over values and headers. There are two loops, because one function
for their beginning would make decoding 5 % slower at 100 bytes a record, and the scan 13 %.

Nothing in the bytes is trusted: each record must end where its length says, the last one where the body ends, and
offsets must ascend within the batch's own range. A batch that breaks this is a `CorruptMessageError`. Not here:
unpacking and checksums (reader.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import chain, pairwise

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.lazy_dataclass import dataclass
from penstock.record.equal_run import MIN_RUN_RECORDS, EqualRun, deltas_of, take_equal_run
from penstock.record.varint import MAX_VARLONG_BYTES, decode_varint, decode_zigzag
from penstock.record.verifier import room_fault

HeaderTuple = tuple[tuple[str, bytes | None], ...]

LOOP_GROWTH = 4
DECODING_ERRORS = (CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError)
"""The errors of a batch whose records cannot be decoded although its checksum is right.

A topic with record.validation=headers, and a log of an older release, have batches whose records nobody looked at: a
producer can have stored bytes that are no records, or that unpack to more than a reader accepts. That is no damage:
every replica holds the same bytes, and no copy is better. Code of the broker that decodes records names such a batch in
the node's log and goes on behind it; it must never take a log out of use for it. The checksum finds damage BEFORE
(storage/segment/batch_scan.py)."""
_NULL_ZIGZAG = 1


@dataclass(slots=True)
class DecodedRecords:
    """The records of one batch as columns, offsets and times still as differences.

    `headers` holds only those that are not empty, by row. `offset_chunks` is what `offset_deltas` is joined from.
    """

    offset_deltas: Sequence[int] = ()
    offset_chunks: list[Sequence[int]] = field(default_factory=list)
    time_zigzags: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: dict[int, HeaderTuple] = field(default_factory=dict)

    def extend(self, run: EqualRun) -> None:
        self.offset_chunks.append(run.offset_deltas)
        self.time_zigzags += run.time_zigzags
        self.keys += run.keys
        self.values += run.values


def decode_records(data: bytes, at: int, end: int, count: int, last_offset_delta: int) -> DecodedRecords:
    """The `count` records that fill `data[at:end]`."""
    fault = room_fault(count, end - at)
    if fault is not None:
        raise CorruptMessageError(f"the batch {fault}")
    records = DecodedRecords()
    loop_records = 1
    try:
        while len(records.values) < count:
            left = count - len(records.values)
            if left >= MIN_RUN_RECORDS:
                run = take_equal_run(data, at, end, left)
                if run is not None:
                    records.extend(run)
                    at, loop_records = run.after, 1
                    continue
            take = min(loop_records, left) if left >= MIN_RUN_RECORDS else left
            at = _take_in_loop(data, at, end, take, records)
            loop_records *= LOOP_GROWTH
    except IndexError as error:
        raise CorruptMessageError(f"a record reaches beyond its batch, near byte {at}") from error
    if at != end:
        raise CorruptMessageError(f"{end - at} bytes are left behind the last of {count} records")
    records.offset_deltas = joined_offsets(records.offset_chunks, last_offset_delta)
    return records


def joined_offsets(chunks: list[Sequence[int]], last_offset_delta: int) -> Sequence[int]:
    """One range where the deltas are dense, else one list; checked to ascend within the batch."""
    joined: Sequence[int] = chunks[0] if chunks else ()
    for chunk in chunks[1:]:
        if isinstance(joined, range) and isinstance(chunk, range) and chunk.start == joined.stop:
            joined = range(joined.start, chunk.stop)
        else:
            joined = list(chain.from_iterable(chunks))
            break
    if not joined:
        return joined
    is_ascending = isinstance(joined, range) or all(after > before for before, after in pairwise(joined))
    if not is_ascending or joined[0] < 0 or joined[-1] > last_offset_delta:
        raise CorruptMessageError(f"offset deltas do not ascend from 0 to {last_offset_delta}")
    return joined


def _take_in_loop(data: bytes, at: int, end: int, count: int, records: DecodedRecords) -> int:
    times, keys, values, zigzags = records.time_zigzags, records.keys, records.values, []
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
            raise CorruptMessageError(f"record at byte {at}: its length is wrong")
        time = data[at + 1]  # the byte before it, the record's attributes, means nothing yet
        at += 2
        if time > 0x7F:
            time, at = decode_zigzag(data, at - 1)
        times.append(time)
        offset = data[at]
        at += 1
        if offset > 0x7F:
            more = data[at]
            if more < 0x80:
                offset = offset & 0x7F | more << 7
                at += 1
            else:
                offset, at = decode_zigzag(data, at - 1)
        zigzags.append(offset)
        size = data[at]
        at += 1
        if size > 0x7F:
            size, at = decode_zigzag(data, at - 1)
        if size & 1:
            _check_null(size)
            keys.append(None)
        else:
            stop = at + (size >> 1)
            keys.append(data[at:stop])
            at = stop
        size = data[at]
        at += 1
        if size > 0x7F:
            more = data[at]
            if more < 0x80:
                size = size & 0x7F | more << 7
                at += 1
            else:
                size, at = decode_zigzag(data, at - 1)
        if size & 1:
            _check_null(size)
            values.append(None)
        else:
            stop = at + (size >> 1)
            values.append(data[at:stop])
            at = stop
        if data[at]:
            records.headers[len(values) - 1], at = decode_headers(data, at)
        else:
            at += 1
        if at != after:
            raise CorruptMessageError(f"record before byte {after}: its fields end at {at}")
    records.offset_chunks.append(deltas_of(zigzags))
    return at


def _check_null(zigzag: int) -> None:
    """The only negative length that a key or a value may have says that it is null."""
    if zigzag != _NULL_ZIGZAG:
        raise CorruptMessageError(f"a key or value has the negative length {zigzag >> 1 ^ -1}")


def decode_headers(data: bytes, at: int, length_bytes_max: int = MAX_VARLONG_BYTES) -> tuple[HeaderTuple, int]:
    """The headers at `at` (their count first), and the position after them. No length may have more bytes."""
    count, at = decode_varint(data, at, length_bytes_max)
    if not 0 <= count <= (len(data) - at) // 2:
        raise CorruptMessageError(f"a record says that it has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name_len, at = decode_varint(data, at, length_bytes_max)
        name, at = _field(data, at, name_len)
        value_len, at = decode_varint(data, at, length_bytes_max)
        value: bytes | None = None
        if value_len != -1:
            value, at = _field(data, at, value_len)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise CorruptMessageError(f"a header's name is not UTF-8: {error}") from error
    return tuple(headers), at


def _field(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise CorruptMessageError(f"a header's field at byte {at} says that it has {size} bytes")
    return data[at : at + size], at + size
