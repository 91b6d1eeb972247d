"""Checks that every record of a compacted topic has a key: a record without one could never be compacted away.

Made for compacted topics only, as in Kafka (INVALID_RECORD), AFTER it was found that the records can be read
(record_validation.py). Compressed batches are unpacked, within a budget for the whole append. Values are stepped over.

That takes long for a large batch, so if possible a thread does it earlier
(broker/apis/producing/produce_conversion.py): `KeyedRecords` are bytes that have passed, and are not checked again.
Checksums are verified BEFORE, so a batch that cannot be decoded here was written so by its producer.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import RECORD_ERRORS_MAX, InvalidRecordError, MessageTooLargeError, RecordError
from penstock.record.batch import CODEC_MASK, BatchHeader
from penstock.record.codecs import Codec
from penstock.record.reader import batch_body
from penstock.record.row_scan import scan_rows
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.append.record_validation import ReadableRecords
from storage.disk.file_system import Bytes

LOOP_BYTES_MAX = 16 * 1024
"""The event loop checks at most this much by itself: a fraction of a millisecond."""


WITHOUT_KEY = "has no key; the topic is compacted (cleanup.policy), and every record of it needs one"


class KeyedRecords(ReadableRecords):
    """Whole batches of which every record has a key."""


def takes_long(batches: Iterable[tuple[int, BatchHeader]]) -> bool:
    """True if a thread must do the check; the unpacked size of a compressed batch is not known."""
    size_bytes = 0
    for _, header in batches:
        size_bytes += header.size_bytes
        if header.attributes & CODEC_MASK or size_bytes > LOOP_BYTES_MAX:
            return True
    return False


def check_keys(
    records: Bytes, batches: Iterable[tuple[int, BatchHeader]], max_unpacked_bytes: int = MAX_UNPACKED_BYTES
) -> None:
    """InvalidRecordError for the first batch with records without a key, which are named if it is the only batch;
    CorruptMessageError for a batch without valid records."""
    if isinstance(records, KeyedRecords):
        return
    data, left_bytes = bytes(records), max_unpacked_bytes
    for position, header in batches:
        try:
            body, at, end = batch_body(data, position, header, left_bytes)
        except MessageTooLargeError as error:
            raise MessageTooLargeError(f"{error}; the topic is compacted, so every record's key is checked") from error
        if header.codec != Codec.NONE:
            left_bytes -= len(body)
        keys = scan_rows(body, at, end, header.record_count, header.last_offset_delta).keys
        if None in keys:
            at_byte = f"of the batch at byte {position} "
            refusal = InvalidRecordError(f"record {keys.index(None)} {at_byte}{WITHOUT_KEY}")
            if position == 0 and header.size_bytes == len(data):
                bad = [index for index, key in enumerate(keys) if key is None][:RECORD_ERRORS_MAX]
                refusal.record_errors = tuple(RecordError(index, f"the record {WITHOUT_KEY}") for index in bad)
            raise refusal
