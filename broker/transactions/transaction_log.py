"""Reads the records of `__transaction_state` from record batches.

From the records of one id in the part that is read only the last is decoded: a log that was not cleaned yet has many.
Reading stops at nothing but damage; records of unknown types are counted, control batches passed over. Not here:
batches for the log (coordination/tick_batches.py).
"""

from __future__ import annotations

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import LogPart
from broker.transactions.transaction_records import decode_transaction_record
from penstock.record.batch import Buffer, iter_headers
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, batch_body, columns_of_batch, wanted_batches


def read_transaction_log(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """As of `ReadLog`."""
    data = bytes(buffer)
    part = LogPart(from_offset)
    for _, header in iter_headers(data):
        part.next_offset = max(part.next_offset, header.next_offset)
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for at, header in wanted_batches(data, from_offset, None, check_crc=True):
        columns = columns_of_batch(*batch_body(data, at, header, max_decompressed_bytes), header)
        if header.is_transactional:
            part.transactional += len(columns)
            continue
        keys = columns.keys if columns.keys is not None else (None,) * len(columns)
        for offset, key, value in zip(columns.offsets, keys, columns.values, strict=True):
            if offset >= from_offset:
                part.read += 1
                last[key] = offset, value
    for key, (offset, value) in last.items():
        try:
            record = decode_transaction_record(key, value)
        except MalformedRecordError as error:
            raise MalformedRecordError(f"offset {offset}: {error}") from None
        if record is None:
            part.unknown += 1
        else:
            part.records.append(record)
    return part
