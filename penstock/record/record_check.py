"""Checks that every record of a batch can be read, and makes nothing of it: what a leader asks before it takes a batch.

The rules are the reader's (decoding.py): records fill their batch, each has the length that it says, its fields fill
it, and offsets are those that the header announces. A batch of a producer has a record for each offset, so the deltas
count up from 0. What passes here is read by every reader; a test compares both for drawn bytes. Java's readers refuse
more than ours: a length in more than five bytes. Records of one size are compared at C speed (equal_run.py), others are
walked over one by one.

Not here: unpacking and checksums (reader.py), and which batches are looked at (storage/append/record_validation.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.errors import CorruptMessageError
from penstock.record.decoding import decode_headers, decode_records
from penstock.record.equal_run import MIN_RUN_RECORDS, leading_equal_records
from penstock.record.varint import MAX_VARINT_BYTES, TABLE_LIMIT, decode_zigzag
from penstock.record.verifier import room_fault

LOOP_RECORDS, LOOP_GROWTH = 16, 4
"""How many go one by one after a failed guess that records have one size, and how much that grows with each failure."""
RUN_COSTS, RUN_SHARE = 30, 16
"""To find a run of equal records costs as much as a look at so many, and at one of so many of the run; at all of them
where their offset deltas have three bytes."""
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


_TIME_FAULT: Final = "has a time that exceeds 64 bits"


class _HeaderRoom:
    """So many bytes of headers may still be read."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _Wrong("has many headers")


class _Wrong(Exception):
    """A record that no reader takes; the text says why."""


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length or an offset delta before its sign is unfolded, and the position after it."""
    return decode_zigzag(data, at, MAX_VARINT_BYTES)


def records_fault(data: bytes, at: int, end: int, count: int, base_ms: int) -> RecordFault | None:
    """The first fault of the `count` records that should fill `data[at:end]`; None where every reader takes them. The
    times are counted from `base_ms`."""
    fault = room_fault(count, end - at)
    if fault is not None:
        return RecordFault(OF_THE_BATCH, fault)
    begin, header_room = at, _HeaderRoom(end - at)
    done, loop_records = 0, LOOP_RECORDS
    while done < count:
        left = count - done
        if left >= MIN_RUN_RECORDS:
            run, after = leading_equal_records(data, at, end, left, done)
            if run:
                done, at, loop_records = done + run, after, LOOP_RECORDS
                continue
        take = min(loop_records, left) if left >= MIN_RUN_RECORDS else left
        loop_records *= LOOP_GROWTH
        found = _walk(data, at, end, done, done + take, base_ms, header_room)
        if isinstance(found, RecordFault):
            return found
        done, at = done + take, found
    if at != end:
        return RecordFault(OF_THE_BATCH, f"has {end - at} bytes behind the last of {count} records")
    return None if abs(base_ms) <= BASE_MS_MAX else _time_fault(data, begin, end, count, base_ms)


def _time_fault(data: bytes, at: int, end: int, count: int, base_ms: int) -> RecordFault | None:
    """The first record whose time exceeds 64 bits; the records are known to fill `data[at:end]`."""
    for place, zigzag in enumerate(decode_records(data, at, end, count, count - 1).time_zigzags):
        if not _is_time(base_ms, zigzag):
            return RecordFault(place, _TIME_FAULT)
    return None


def _is_time(base_ms: int, zigzag: int) -> bool:
    return _INT64_MIN <= base_ms + (zigzag >> 1 ^ -(zigzag & 1)) <= _INT64_MAX


def quickly_read(data: bytes, at: int, end: int, count: int, base_ms: int, count_max: int) -> int | None:
    """The cost of finding that every reader takes the `count` records that should fill `data[at:end]`, in records that
    were looked at one by one: `count_max` at most. None where that is not enough, or there are many headers, or a
    fault: `records_fault` says."""
    if room_fault(count, end - at) is not None or abs(base_ms) > BASE_MS_MAX:
        return None
    done, looked_at, header_room = 0, 0, _HeaderRoom(HEADER_BYTES_FEW)
    while done < count:
        left = count - done
        run, after = leading_equal_records(data, at, end, left, done) if left >= MIN_RUN_RECORDS else (0, at)
        if run:
            done, at = done + run, after
            looked_at += RUN_COSTS + (run // RUN_SHARE if done <= TABLE_LIMIT else run)
            if looked_at > count_max:
                return None
            continue
        take = min(left, LOOP_RECORDS + looked_at)
        looked_at += take
        if looked_at > count_max:
            return None
        found = _walk(data, at, end, done, done + take, base_ms, header_room)
        if isinstance(found, RecordFault):
            return None
        done, at = done + take, found
    return looked_at if at == end else None


def _walk(
    data: bytes, at: int, end: int, first: int, last: int, base_ms: int, header_room: _HeaderRoom
) -> int | RecordFault:
    """The position behind the records from `first` to before `last`, or the first fault. A record without headers,
    whose varints have up to two bytes, costs no call: a third of what decoding it costs."""
    want = first << 1
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
            if data[at] < 0x80 or data[at + 1] < 0x80:
                at += 1 if data[at] < 0x80 else 2
            else:
                size, at = decode_zigzag(data, at)
                if size >> 63 and not _is_time(base_ms, size):
                    raise _Wrong(_TIME_FAULT)
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
            if size != _NULL_ZIGZAG:
                if size & 1:
                    raise _Wrong("has a key of a negative length")
                at += size >> 1
            size = data[at]
            if size < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 2
            else:
                size, at = _length(data, at)
            if size != _NULL_ZIGZAG:
                if size & 1:
                    raise _Wrong("has a value of a negative length")
                at += size >> 1
            if data[at]:
                header_room.take(after - at)
                _, at = decode_headers(data, at, MAX_VARINT_BYTES)
            else:
                at += 1
            if at != after:
                raise _Wrong(
                    f"has fields of {abs(at - after)} bytes {'more' if at > after else 'less'} than its length"
                )
    except IndexError:
        return RecordFault(want >> 1, "reaches beyond the batch")
    except CorruptMessageError as error:
        return RecordFault(want >> 1, f"cannot be read: {error}")
    except _Wrong as error:
        return RecordFault(want >> 1, str(error))
    return at
