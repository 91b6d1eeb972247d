"""Reads the records of `__consumer_offsets` from record batches.

Reading stops at nothing but damage: records of unknown types are counted. Of the offsets that one partition of a topic
had for a group in the part that is read, only the last is decoded, and it comes after the records of groups, on which
it does not depend: a log that was not cleaned yet has thousands of them. A transaction's offsets and its marker keep
their places among all others: the last offset that was written or became true counts. Not here: batches for the log
(coordination/tick_batches.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import LogPart, TransactionalRecord, parts_of
from broker.groups.records.record_codec import decode_group_record
from broker.groups.records.usual_offsets import UsualOffsetReader
from penstock.record.batch import Buffer
from penstock.record.markers import Marker
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES

_OFFSET_KEYS: Final = b"\x00\x01"


def read_group_records(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """The records at `from_offset` and after (`ReadLog`)."""
    found, usual = LogPart(from_offset), UsualOffsetReader()
    last_offsets: dict[bytes, tuple[int, bytes | None]] = {}

    def settle() -> None:
        for key, (offset, value) in last_offsets.items():
            record = usual.read(key, value) or _decoded(offset, key, value)
            if record is not None:
                found.records.append(record)
        last_offsets.clear()

    for part in parts_of(bytes(buffer), found, max_decompressed_bytes):
        if isinstance(part, Marker):
            settle()
            found.records.append(part)
            continue
        producer, columns = part
        if producer is not None:
            settle()
        keys = columns.keys if columns.keys is not None else (None,) * len(columns)
        for offset, key, value in zip(columns.offsets, keys, columns.values, strict=True):
            if offset < from_offset:
                continue
            found.read += 1
            if producer is None and key is not None and key.startswith(_OFFSET_KEYS):
                last_offsets[key] = offset, value
                continue
            record = _decoded(offset, key, value)
            if record is None:
                found.unknown += 1
            else:
                found.records.append(record if producer is None else TransactionalRecord(*record, producer))
    settle()
    return found


def _decoded(offset: int, key: bytes | None, value: bytes | None) -> tuple[Any, Any | None] | None:
    try:
        return decode_group_record(key, value)
    except MalformedRecordError as error:
        raise MalformedRecordError(f"offset {offset}: {error}") from None
