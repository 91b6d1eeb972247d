"""Checks that readers can read every record of a produced batch (`record.validation=records`, the default).

A reader stands still at a batch that it cannot read, so one faulty producer could stop all readers of a partition.
Kafka's leader looks at every record, too, and unpacks what is compressed. A batch with a fault is refused as a whole,
and the answer names the record. With `record.validation=headers` a leader believes its producers.

Most batches are looked at on the event loop: it takes 0.4 µs for a record without headers, and less for equal ones.
Where it could take milliseconds, a thread does it, before the append (broker/apis/producing/produce_conversion.py).
`ReadableRecords` are bytes that have passed, and are not looked at again. Checksums are verified BEFORE a batch is
refused, so one with a fault was written so by its producer. Pure. Not here: the rules for one record
(penstock/record/record_check.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError, RecordError
from penstock.record.batch import HEADER_BYTES, BatchHeader
from penstock.record.codecs import XERIAL_MAGIC, Codec, xerial_fault
from penstock.record.frames import lz4_fault
from penstock.record.reader import batch_body
from penstock.record.record_check import OF_THE_BATCH, quickly_read, records_fault
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.disk.file_system import Bytes

LOOP_RECORDS_MAX: Final = 1_000
"""The event loop looks at so many records of an append one by one."""
LOOP_PACKED_BYTES_MAX, LOOP_UNPACKED_BYTES_MAX = 16 * 1024, 256 * 1024
"""…and unpacks so much: gzip, the slowest, takes half a millisecond; blocks of one byte take two."""


class ReadableRecords(bytes):
    """Whole batches of which every record can be read."""


def readable_at_once(records: Bytes, batches: Iterable[tuple[int, BatchHeader]]) -> ReadableRecords | None:
    """The records, if every reader takes them; None if a thread must look at them. Their checksums may be wrong."""
    data = ReadableRecords(records)
    left_records, left_bytes = LOOP_RECORDS_MAX, LOOP_UNPACKED_BYTES_MAX
    for position, header in batches:
        is_packed = header.codec != Codec.NONE
        if is_packed and header.size_bytes > LOOP_PACKED_BYTES_MAX:
            return None
        try:
            body, at, end = batch_body(data, position, header, left_bytes)
            if _stream_fault(data, position, header) is not None:
                return None
        except (CorruptMessageError, MessageTooLargeError):
            return None
        if is_packed:
            left_bytes -= len(body)
        cost = quickly_read(body, at, end, header.record_count, header.base_timestamp_ms, left_records)
        if cost is None:
            return None
        left_records -= cost
    return data


def check_readable(
    records: Bytes, batches: Iterable[tuple[int, BatchHeader]], max_unpacked_bytes: int = MAX_UNPACKED_BYTES
) -> None:
    """InvalidRecordError for the first batch with a record that no reader takes; the record is named if the batch is
    the only one. A stream that cannot be unpacked is such a batch, too."""
    if isinstance(records, ReadableRecords):
        return
    data, left_bytes = bytes(records), max_unpacked_bytes
    for position, header in batches:
        what = f"the batch at byte {position}"
        try:
            body, at, end = batch_body(data, position, header, left_bytes)
            stream_fault = _stream_fault(data, position, header)
        except CorruptMessageError as error:
            raise InvalidRecordError(f"{what} cannot be unpacked, so nobody could read it: {error}") from error
        if stream_fault is not None:
            raise InvalidRecordError(f"Java's readers would refuse {what}, which {stream_fault}")
        if header.codec != Codec.NONE:
            left_bytes -= len(body)
        fault = records_fault(body, at, end, header.record_count, header.base_timestamp_ms)
        if fault is None:
            continue
        if fault.place == OF_THE_BATCH:
            raise InvalidRecordError(f"{what} {fault.text}")
        refusal = InvalidRecordError(f"record {fault.place} of {what} {fault.text}; nobody could read the batch")
        if position == 0 and header.size_bytes == len(data):
            refusal.record_errors = (RecordError(fault.place, f"the record {fault.text}"),)
        raise refusal


def _stream_fault(data: bytes, position: int, header: BatchHeader) -> str | None:
    """Why the readers of other clients could not unpack the batch, which ours can."""
    at, end = position + HEADER_BYTES, position + header.size_bytes
    if header.codec == Codec.SNAPPY and data.startswith(XERIAL_MAGIC, at):
        return xerial_fault(data, at, end)
    return lz4_fault(data, at, end) if header.codec == Codec.LZ4 else None
