"""Reads the records of `__consumer_offsets` from record batches.

Reading stops at nothing but damage: records of unknown types are counted, control batches passed over. Of the offsets
that one partition of a topic had for a group in the part that is read, only the last is decoded, and it comes after the
records of groups, on which it does not depend: a log that was not cleaned yet has thousands of them. Offsets that a
transaction commits are in transactional batches; they count only once their transaction is committed, which nobody
decides here yet, so such batches are counted and left out. Not here: batches for the log
(coordination/tick_batches.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import LogPart
from broker.groups.records.record_codec import decode_group_record
from broker.groups.records.usual_offsets import UsualOffsetReader
from penstock.record.batch import Buffer, iter_headers
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, batch_body, columns_of_batch, wanted_batches

_OFFSET_KEYS: Final = b"\x00\x01"


def read_group_records(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """The records at `from_offset` and after. A partial last batch is left for the next time; one that is damaged is a
    `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""
    data = bytes(buffer)
    found = LogPart(from_offset)
    for _, header in iter_headers(data):
        found.next_offset = max(found.next_offset, header.next_offset)
    last_offsets: dict[bytes, tuple[int, bytes | None]] = {}
    for at, header in wanted_batches(data, from_offset, None, check_crc=True):
        columns = columns_of_batch(*batch_body(data, at, header, max_decompressed_bytes), header)
        if header.is_transactional:
            found.transactional += len(columns)
            continue
        keys = columns.keys if columns.keys is not None else (None,) * len(columns)
        for offset, key, value in zip(columns.offsets, keys, columns.values, strict=True):
            if offset < from_offset:
                continue
            found.read += 1
            if key is not None and key.startswith(_OFFSET_KEYS):
                last_offsets[key] = offset, value
                continue
            record = _decoded(offset, key, value)
            if record is None:
                found.unknown += 1
            else:
                found.records.append(record)
    usual = UsualOffsetReader()
    for key, (offset, value) in last_offsets.items():
        record = usual.read(key, value) or _decoded(offset, key, value)
        if record is not None:
            found.records.append(record)
    return found


def _decoded(offset: int, key: bytes | None, value: bytes | None) -> tuple[Any, Any | None] | None:
    try:
        return decode_group_record(key, value)
    except MalformedRecordError as error:
        raise MalformedRecordError(f"offset {offset}: {error}") from None
