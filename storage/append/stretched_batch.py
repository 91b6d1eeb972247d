"""Fits a leader's batch that begins below the follower's log end, because the leader has cleaned its log. Pure.

The leader's cleaner stretches a batch over the offsets of removed batches behind it (`offset_tiling.py`). A follower
that was away meanwhile may hold the original batch, so that its log ends inside the stretched one. All records of that
batch are then below the follower's log end, because a batch once ended there. The offsets above hold no record any
more: an empty batch of the same epoch takes their place.

The cleaner removes nothing from a batch that it cannot decode, so the record count in the header tells where the
records of such a batch end. A batch with records on both sides of the log end is no such case: it is left as it is, and
the append refuses it.

A log that starts inside a batch is handled by `append_as_follower` of broker/replication/follower/follower_log.py.
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError
from penstock.record.batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    read_header,
    verify_crc,
)
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.reader import read_columns
from penstock.record.rewrite import emptied
from penstock.record.verifier import WRONG_CHECKSUM
from storage.append.header_check import from_leader
from storage.disk.file_system import Bytes


def without_overlap(records: Bytes, log_end_offset: int) -> Bytes:
    """The fetched batches. If all records of the first are below the log end, an empty batch from there replaces it."""
    if len(records) < HEADER_BYTES:
        return records
    first = read_header(records)
    if first.is_control or not first.base_offset < log_end_offset < first.next_offset:
        return records
    rest = memoryview(records)[first.size_bytes :]
    if not verify_crc(records, 0, first):
        raise CorruptMessageError(from_leader(first.base_offset, WRONG_CHECKSUM))
    if _has_records_from(log_end_offset, first, memoryview(records)[: first.size_bytes]):
        return records
    cover = first._replace(
        base_offset=log_end_offset,
        last_offset_delta=first.next_offset - 1 - log_end_offset,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )
    return b"".join((emptied(cover), rest))


def _has_records_from(offset: int, header: BatchHeader, batch: memoryview) -> bool:
    try:
        return len(read_columns(batch, from_offset=offset, check_crc=False)) > 0
    except DECODING_ERRORS:
        return header.base_offset + header.record_count > offset
