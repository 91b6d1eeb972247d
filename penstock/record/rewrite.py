"""Removes records from a batch: the others keep their bytes.

Offsets and times in a record are differences from the batch's base, so the remaining records need no change. Their
bytes are joined behind a header in which only the count, the largest timestamp, length and checksum are new. A new
*delete horizon* (KIP-534) takes the place of the base timestamp, so it changes every record's time difference; their
other bytes stay the same. The batch keeps its codec.

Not here: which records are removed (the log cleaner), and finding them (`row_scan.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice

from penstock.errors import CorruptMessageError
from penstock.record import codecs
from penstock.record.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    pack_batch,
)
from penstock.record.row_scan import Rows
from penstock.record.varint import VARINTS, decode_zigzag, encode_varint
from penstock.types import NO_TIMESTAMP


def rewritten(
    header: BatchHeader, body: bytes, rows: Rows, keep: Sequence[bool], delete_horizon_ms: int | None
) -> bytes:
    """The batch with only the rows of `body` that `keep` says, at least one, and with this horizon or none."""
    starts = compress(rows.bounds, keep)
    ends = compress(islice(rows.bounds, 1, None), keep)
    zigzags = list(compress(rows.time_zigzags, keep))
    attributes, base_ms = header.attributes, header.base_timestamp_ms
    if delete_horizon_ms == header.delete_horizon_ms:
        records: Iterable[bytes] = map(body.__getitem__, map(slice, starts, ends))
    elif delete_horizon_ms is None:
        attributes, base_ms = attributes & ~DELETE_HORIZON_BIT, base_ms + _signed(zigzags[0])
        records = _rebased(body, starts, ends, header.base_timestamp_ms - base_ms)
    else:
        attributes, base_ms = attributes | DELETE_HORIZON_BIT, delete_horizon_ms
        records = _rebased(body, starts, ends, header.base_timestamp_ms - base_ms)
    max_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        max_ms = header.base_timestamp_ms + max(map(_signed, set(zigzags)))
    kept = header._replace(
        attributes=attributes, base_timestamp_ms=base_ms, max_timestamp_ms=max_ms, record_count=len(zigzags)
    )
    return pack_batch(kept, codecs.compress(header.codec, b"".join(records)))


def emptied(header: BatchHeader) -> bytes:
    """The batch without records. It keeps its offsets, its producer's id and epoch, and its leader epoch.

    No record has a time, so there is no largest one. A producer that sends the batch again is told the time of its
    append, so that stays as the base timestamp.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    append_time_ms = NO_TIMESTAMP
    if header.is_log_append_time and header.producer_id != NO_PRODUCER_ID:
        append_time_ms = header.max_timestamp_ms
    times = {"base_timestamp_ms": append_time_ms, "max_timestamp_ms": NO_TIMESTAMP}
    return pack_batch(header._replace(attributes=attributes, record_count=0, **times), b"")


def stretched(header: BatchHeader, batch: Buffer, next_offset: int) -> bytes:
    """The batch with a last offset delta that reaches up to `next_offset`; its records stay as they are."""
    longer = header._replace(last_offset_delta=next_offset - 1 - header.base_offset)
    return pack_batch(longer, memoryview(batch)[HEADER_BYTES:])


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)


def _rebased(body: bytes, starts: Iterable[int], ends: Iterable[int], shift_ms: int) -> Iterator[bytes]:
    """The records with `shift_ms` added to their time differences."""
    for start, end in zip(starts, ends, strict=True):
        _, at = decode_zigzag(body, start)
        zigzag, rest = decode_zigzag(body, at + 1)
        try:
            time = encode_varint(_signed(zigzag) + shift_ms)
        except OverflowError as error:
            raise CorruptMessageError(f"record at byte {start}: its timestamp exceeds 64 bits") from error
        record = body[at : at + 1] + time + body[rest:end]
        yield VARINTS[len(record)] + record
