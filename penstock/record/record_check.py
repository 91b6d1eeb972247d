"""Looks at every record of a batch, and makes nothing of it: what a leader asks before it takes a batch.

The look finds the first fault, or the largest time of the records. The rules are the reader's (decoding.py): records
fill their batch, each has the length that it says, its fields fill it, and offsets are those that the header announces.
A batch of a producer has a record for each offset, so the deltas count up from 0. What passes here is read by every
reader; a test compares both for drawn bytes. Java's readers refuse more than ours: a length in more than five bytes.
Records of one size are compared at C speed (equal_run.py), others are walked over one by one.

Not here: unpacking and checksums (reader.py), and which batches are looked at (storage/append/record_validation.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.errors import CorruptMessageError
from penstock.record.decoding import decode_headers, decode_records
from penstock.record.equal_run import ALL_NEGATIVE, MIN_RUN_RECORDS, leading_equal_records
from penstock.record.varint import MAX_VARINT_BYTES, TABLE_LIMIT, decode_zigzag
from penstock.record.verifier import room_fault

LOOP_RECORDS, LOOP_GROWTH = 16, 4
"""How many go one by one after a failed guess that records have one size, and how much that grows with each failure."""
RUN_COSTS, RUN_SHARE = 30, 16
"""The cost of finding a run of equal records, in single looks: RUN_COSTS, and one for every RUN_SHARE records of the
run. Where the offset deltas have three bytes, it is one for every record."""
HEADER_BYTES_FEW: Final = 8 * 1_024
"""The headers of a batch are quickly read up to this size: it takes 0.7 ms."""
BASE_MS_MAX: Final = 1 << 62
"""A base timestamp up to this, of either sign, leaves 64 bits to the sum with every delta of nine bytes."""
OF_THE_BATCH: Final = -1
_NULL_ZIGZAG = 1
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class RecordFault(NamedTuple):
    """The record by its place in the batch, or OF_THE_BATCH, and what is wrong, as the end of a sentence."""

    place: int
    text: str


LONG: Final = RecordFault(OF_THE_BATCH, "takes long to look at")
_TIME_FAULT: Final = "has a time that exceeds 64 bits"


class _Wrong(Exception):
    """A record that no reader takes; the text says why."""


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length or an offset delta before its sign is unfolded, and the position after it."""
    return decode_zigzag(data, at, MAX_VARINT_BYTES)


def look(
    data: bytes, at: int, end: int, count: int, base_ms: int, cost_max: int | None = None
) -> tuple[int, int] | RecordFault:
    """The largest time of the `count` records that should fill `data[at:end]`, whose times are counted from `base_ms`,
    and what the look cost, in records that were looked at one by one. If a reader does not take them, the first fault.

    `cost_max` is for the event loop. A fault then only says that a thread must look: also where the cost would be
    larger, there are many headers, or each time has to be decoded."""
    fault = room_fault(count, end - at)
    if fault is not None:
        return RecordFault(OF_THE_BATCH, fault)
    begin, header_bytes = at, end - at if cost_max is None else HEADER_BYTES_FEW
    done, cost, loop_records, largest = 0, 0, LOOP_RECORDS, ALL_NEGATIVE
    while done < count:
        left, run, time = count - done, 0, ALL_NEGATIVE
        if left >= MIN_RUN_RECORDS:
            run, at, time = leading_equal_records(data, at, end, left, done)
        if run:
            done, loop_records = done + run, LOOP_RECORDS
            cost += RUN_COSTS + (run // RUN_SHARE if done <= TABLE_LIMIT else run)
        else:
            take = min(loop_records, left) if left >= MIN_RUN_RECORDS else left
            cost, loop_records = cost + take, loop_records * LOOP_GROWTH
            if cost_max is None or cost <= cost_max:
                found = _walk(data, at, end, done, done + take, base_ms, header_bytes)
                if isinstance(found, RecordFault):
                    return found
                at, time, header_bytes = found
                done += take
        if cost_max is not None:
            if cost > cost_max:
                return LONG
            loop_records = LOOP_RECORDS + cost
        if time > largest:
            largest = time
    if at != end:
        return RecordFault(OF_THE_BATCH, f"has {end - at} bytes behind the last of {count} records")
    if largest != ALL_NEGATIVE and abs(base_ms) <= BASE_MS_MAX:
        return base_ms + (largest >> 1), cost
    return _look_at_times(data, begin, end, count, base_ms, cost) if cost_max is None else LONG


def _look_at_times(
    data: bytes, at: int, end: int, count: int, base_ms: int, cost: int
) -> tuple[int, int] | RecordFault:
    """Decodes each time; the records are known to fill `data[at:end]`."""
    zigzags = decode_records(data, at, end, count, count - 1).time_zigzags
    for place, zigzag in enumerate(zigzags):
        if not _is_time(base_ms, zigzag):
            return RecordFault(place, _TIME_FAULT)
    return base_ms + max((zigzag >> 1 ^ -(zigzag & 1) for zigzag in zigzags), default=0), cost


def _is_time(base_ms: int, zigzag: int) -> bool:
    return _INT64_MIN <= base_ms + (zigzag >> 1 ^ -(zigzag & 1)) <= _INT64_MAX


def _walk(
    data: bytes, at: int, end: int, first: int, last: int, base_ms: int, header_bytes: int
) -> tuple[int, int, int] | RecordFault:
    """The position behind the records from `first` to before `last`, the largest time as `leading_equal_records` tells
    it, and how many of `header_bytes` are left; or the first fault. A record without headers, whose varints have up to
    two bytes, costs no call: a third of what decoding it costs."""
    want, largest = first << 1, ALL_NEGATIVE
    try:
        for want in range(first << 1, last << 1, 2):  # the offset delta as it is written
            size = data[at]
            if size < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 2
            else:
                size, at = _length(data, at)
            after = at + (size >> 1)
            if size & 1 or after > end:
                raise _Wrong("has a length that reaches beyond the batch")
            at += 1  # the record's attributes mean nothing yet
            time = data[at]
            if time < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                time, at = time & 0x7F | more << 7, at + 2
            else:
                time, at = decode_zigzag(data, at)
                if time >> 63 and not _is_time(base_ms, time):
                    raise _Wrong(_TIME_FAULT)
            if time > largest and not time & 1:
                largest = time
            size = data[at]
            if size < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 2
            else:
                size, at = _length(data, at)
            if size != want:
                raise _Wrong(f"has the offset delta {size >> 1 ^ -(size & 1)}, and is record {want >> 1} of its batch")
            size = data[at]
            if size < 0x80:
                at += 1
            else:
                size, at = _length(data, at)
            if not size & 1:
                at += size >> 1
            elif size != _NULL_ZIGZAG:
                raise _Wrong("has a key of a negative length")
            size = data[at]
            if size < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 2
            else:
                size, at = _length(data, at)
            if not size & 1:
                at += size >> 1
            elif size != _NULL_ZIGZAG:
                raise _Wrong("has a value of a negative length")
            if data[at]:
                header_bytes, at = header_bytes - (after - at), _behind_headers(data, at, after, header_bytes)
            else:
                at += 1
            if at != after:
                raise _Wrong(f"has fields of {abs(at - after)} bytes {_more_or_less(at - after)} than its length")
    except (IndexError, CorruptMessageError, _Wrong) as error:
        return RecordFault(want >> 1, _text_of(error))
    return at, largest, header_bytes


def _behind_headers(data: bytes, at: int, after: int, bytes_max: int) -> int:
    if after - at > bytes_max:
        raise _Wrong("has many headers")
    return decode_headers(data, at, MAX_VARINT_BYTES)[1]


def _more_or_less(difference: int) -> str:
    return "more" if difference > 0 else "less"


def _text_of(error: Exception) -> str:
    if isinstance(error, IndexError):
        return "reaches beyond the batch"
    return f"cannot be read: {error}" if isinstance(error, CorruptMessageError) else str(error)
