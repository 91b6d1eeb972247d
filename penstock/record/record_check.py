"""Checks that every record of a batch can be read, and makes nothing of it: what a leader asks before it takes a batch.

The rules are the reader's (decoding.py): records fill their batch, each has the length that it says, its fields fill
it, and offsets are those that the header announces. A batch of a producer has a record for each offset, so the deltas
count up from 0. What passes here is read by every reader; a test compares both for drawn bytes. Records of one size are
compared at C speed (equal_run.py), others are walked over one by one.

Not here: unpacking and checksums (reader.py), and which batches are looked at (storage/append/record_validation.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.config_keys import INT32_MAX
from penstock.errors import CorruptMessageError
from penstock.record.decoding import decode_headers
from penstock.record.equal_run import MIN_RUN_RECORDS, leading_equal_records
from penstock.record.varint import decode_zigzag
from penstock.record.verifier import room_fault

LOOP_RECORDS, LOOP_GROWTH = 16, 4
"""How many go one by one after a failed guess that records have one size, and how much that grows with each failure."""
RUN_COSTS: Final = 30
"""To find a run of equal records costs as much as a look at so many."""
HEADER_BYTES_FEW: Final = 1_024
"""A record's headers are quickly read up to this size."""
OF_THE_BATCH: Final = -1
_NULL_ZIGZAG = 1


class RecordFault(NamedTuple):
    """The record by its place in the batch, or OF_THE_BATCH, and what is wrong, as the end of a sentence."""

    place: int
    text: str


class _Wrong(Exception):
    """A record that no reader takes; the text says why."""


def records_fault(data: bytes, at: int, end: int, count: int) -> RecordFault | None:
    """The first fault of the `count` records that should fill `data[at:end]`; None where every reader takes them."""
    fault = room_fault(count, end - at)
    if fault is not None:
        return RecordFault(OF_THE_BATCH, fault)
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
        found = _walk(data, at, end, done, done + take)
        if isinstance(found, RecordFault):
            return found
        done, at = done + take, found
    if at != end:
        return RecordFault(OF_THE_BATCH, f"has {end - at} bytes behind the last of {count} records")
    return None


def are_quickly_read(data: bytes, at: int, end: int, count: int, count_max: int) -> bool:
    """True if every reader takes the `count` records that should fill `data[at:end]`, and that was found by a look at
    `count_max` of them at most, besides long runs of equal ones, and at few headers. Otherwise `records_fault` says."""
    if room_fault(count, end - at) is not None:
        return False
    done, looked_at = 0, 0
    while done < count:
        left = count - done
        run, after = leading_equal_records(data, at, end, left, done) if left >= MIN_RUN_RECORDS else (0, at)
        if run:
            done, at, looked_at = done + run, after, looked_at + RUN_COSTS
            if looked_at > count_max:
                return False
            continue
        take = min(left, LOOP_RECORDS + looked_at)
        looked_at += take
        if looked_at > count_max:
            return False
        found = _walk(data, at, end, done, done + take, HEADER_BYTES_FEW)
        if isinstance(found, RecordFault):
            return False
        done, at = done + take, found
    return at == end


def _walk(
    data: bytes, at: int, end: int, first: int, last: int, header_bytes_max: int = INT32_MAX
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
                size, at = decode_zigzag(data, at)
            after = at + (size >> 1)
            if size & 1 or after > end:
                raise _Wrong("has a length that reaches beyond the batch")
            at += 1  # the record's attributes mean nothing yet
            if data[at] < 0x80 or data[at + 1] < 0x80:
                at += 1 if data[at] < 0x80 else 2
            else:
                _, at = decode_zigzag(data, at)
            size = data[at]
            if size < 0x80:
                at += 1
            elif (more := data[at + 1]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 2
            else:
                size, at = decode_zigzag(data, at)
            if size != want:
                raise _Wrong(f"has the offset delta {size >> 1 ^ -(size & 1)}, and is record {want >> 1} of its batch")
            size = data[at]
            if size < 0x80:
                at += 1
            else:
                size, at = decode_zigzag(data, at)
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
                size, at = decode_zigzag(data, at)
            if size != _NULL_ZIGZAG:
                if size & 1:
                    raise _Wrong("has a value of a negative length")
                at += size >> 1
            if data[at]:
                if after - at > header_bytes_max:
                    raise _Wrong("has many headers")
                _, at = decode_headers(data, at)
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
