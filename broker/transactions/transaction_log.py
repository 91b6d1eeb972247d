"""Reads the records of `__transaction_state` from record batches.

From the records of one id in the part that is read only the last is decoded: a log that was not cleaned yet has many.
Reading stops at nothing but damage; records of unknown types are counted, control batches passed over. Not here:
batches for the log (coordination/tick_batches.py).
"""

from __future__ import annotations

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import LogPart, parts_of
from broker.transactions.transaction_records import decode_transaction_record
from penstock.record.batch import Buffer
from penstock.record.markers import Marker
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES


def read_transaction_log(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """Reads the newest records of the part; as `ReadLog` requires."""
    part = LogPart(from_offset)
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for one in parts_of(bytes(buffer), part, max_decompressed_bytes):
        if not isinstance(one, Marker) and one.producer is None:
            last.update(zip(one.keys, zip(one.offsets, one.values, strict=True), strict=True))
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
