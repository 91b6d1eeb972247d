"""Checks that readers can read every record of a produced batch (`record.validation=records`, the default), and sets
the batch's largest timestamp to that of its records.

A reader stands still at a batch that it cannot read, so one faulty producer could stop all readers of a partition.
Kafka's leader looks at every record, too, and unpacks what is compressed. A batch with a fault is refused as a whole,
and the answer names the record.

Retention, the roll of segments and look-ups by time go by the largest timestamp in a batch's header. Some clients leave
it at -1 (Sarama up to 1.45), or give the time of the last record (segmentio/kafka-go): then records that are seconds
old are deleted as old ones, and are not found. The look at the records finds the largest time, as Kafka's leader does.
A header that says another one is written anew, with its checksum.

With `record.validation=headers` a leader believes its producers. Only a batch whose largest timestamp is below its
first is looked at, because that cannot be true.

Most batches are looked at on the event loop: it takes 0.4 µs for a record without headers, and less for equal ones.
Where it could take milliseconds, a thread does it, before the append (broker/apis/producing/produce_conversion.py).
`ReadableRecords` are bytes that have passed, and are not looked at again. Checksums are verified BEFORE a batch is
refused or changed, so one with a fault was written so by its producer. Pure. Not here: the rules for one record
(penstock/record/record_check.py), and which times a topic takes (time_validation.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError, RecordError
from penstock.record.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_BYTES,
    MAX_TIMESTAMP_AT,
    BatchHeader,
    verify_crc,
)
from penstock.record.codecs import XERIAL_MAGIC, Codec, xerial_fault
from penstock.record.frames import lz4_fault
from penstock.record.reader import batch_body
from penstock.record.record_check import OF_THE_BATCH, RecordFault, look
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.disk.file_system import Bytes
from storage.log_config import LogConfig

LOOP_RECORDS_MAX: Final = 1_000
"""The most records of an append that the event loop looks at, one by one."""
LOOP_PACKED_BYTES_MAX, LOOP_UNPACKED_BYTES_MAX = 16 * 1024, 256 * 1024
"""…and the most bytes that it unpacks: gzip, the slowest, takes half a millisecond; blocks of one byte take two."""
LOOP_CHANGED_BYTES_MAX: Final = 16 * 1024
"""…and the largest append that it gives another largest timestamp: it is copied, and its checksum computed twice."""
_TIMESTAMP, _CRC = Struct(">q"), Struct(">I")

Batches = Sequence[tuple[int, BatchHeader]]


class ReadableRecords(bytes):
    """Whole batches of which every record can be read, and whose largest timestamps are those of their records."""


def to_look_at(batches: Batches, config: LogConfig) -> Batches:
    """The batches of a producer whose records a leader looks at."""
    if config.validates_records:
        return batches
    if config.message_timestamp_type == "LogAppendTime":
        return ()
    return [(at, header) for at, header in batches if header.max_timestamp_ms < header.base_timestamp_ms]


def readable_at_once(records: Bytes, batches: Iterable[tuple[int, BatchHeader]]) -> ReadableRecords | None:
    """The records, if every reader takes them; None if a thread must look at them. Their checksums may be wrong."""
    data = ReadableRecords(records)
    left_records, left_bytes = LOOP_RECORDS_MAX, LOOP_UNPACKED_BYTES_MAX
    wrong: list[tuple[int, BatchHeader, int]] = []
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
        found = look(body, at, end, header.record_count, header.base_timestamp_ms, left_records)
        if isinstance(found, RecordFault):
            return None
        largest_ms, cost = found
        left_records -= cost
        if largest_ms != header.max_timestamp_ms:
            if len(data) > LOOP_CHANGED_BYTES_MAX or not verify_crc(data, position, header):
                return None
            wrong.append((position, header, largest_ms))
    return ReadableRecords(_with_largest_times(data, wrong)) if wrong else data


def readable(
    records: Bytes, batches: Iterable[tuple[int, BatchHeader]], max_unpacked_bytes: int = MAX_UNPACKED_BYTES
) -> Bytes:
    """The records with the largest timestamps of the batches set; the same object where all were right.

    InvalidRecordError for the first batch with a record that no reader takes; the record is named if the batch is the
    only one. A stream that cannot be unpacked is such a batch, too."""
    if isinstance(records, ReadableRecords):
        return records
    data, left_bytes = bytes(records), max_unpacked_bytes
    wrong: list[tuple[int, BatchHeader, int]] = []
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
        found = look(body, at, end, header.record_count, header.base_timestamp_ms)
        if isinstance(found, RecordFault):
            raise _refusal(found, what, is_alone=position == 0 and header.size_bytes == len(data))
        largest_ms, _ = found
        if largest_ms != header.max_timestamp_ms:
            wrong.append((position, header, largest_ms))
    return _with_largest_times(data, wrong) if wrong else records


def _refusal(fault: RecordFault, what: str, *, is_alone: bool) -> InvalidRecordError:
    if fault.place == OF_THE_BATCH:
        return InvalidRecordError(f"{what} {fault.text}")
    refusal = InvalidRecordError(f"record {fault.place} of {what} {fault.text}; nobody could read the batch")
    if is_alone:
        refusal.record_errors = (RecordError(fault.place, f"the record {fault.text}"),)
    return refusal


def _with_largest_times(records: Bytes, wrong: Iterable[tuple[int, BatchHeader, int]]) -> bytes:
    """The records with other largest timestamps in the headers of some batches, whose checksums were right."""
    data = bytearray(records)
    for position, header, largest_ms in wrong:
        _TIMESTAMP.pack_into(data, position + MAX_TIMESTAMP_AT, largest_ms)
        with memoryview(data) as view:
            crc = crc32c(view[position + ATTRIBUTES_AT : position + header.size_bytes])
        _CRC.pack_into(data, position + CRC_AT, crc)
    return bytes(data)


def _stream_fault(data: bytes, position: int, header: BatchHeader) -> str | None:
    """Why the readers of other clients could not unpack the batch, which ours can."""
    at, end = position + HEADER_BYTES, position + header.size_bytes
    if header.codec == Codec.SNAPPY and data.startswith(XERIAL_MAGIC, at):
        return xerial_fault(data, at, end)
    return lz4_fault(data, at, end) if header.codec == Codec.LZ4 else None
