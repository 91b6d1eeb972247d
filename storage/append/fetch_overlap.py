"""A leader's batch that begins below the follower's log end, because the leader has cleaned since. Pure.

A cleaned batch is stretched over the removed ones behind it (`offset_tiling.py`). A follower that was away since may
have the batch, and end among the offsets that it covers now: where the follower's log ends a batch once ended, so the
records of this one are all below, and what is above are offsets of which nothing is left. An empty batch of the same
epoch covers them. Of a batch that cannot be decoded the cleaner has taken nothing out, so its count tells where its
records end. A batch that has records on both sides of the log end is none of these, and stays to be refused.

Not here: a log that starts inside a batch (broker's `Partition.append_as_follower`).
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
from penstock.record.reader import read_columns
from penstock.record.rewrite import emptied
from storage.disk.file_system import Bytes
from storage.segment import batch_faults
from storage.segment.undecodable import DECODING_ERRORS


def without_overlap(records: Bytes, log_end_offset: int) -> Bytes:
    """The fetched batches, of which the first begins at the log end where all of its records are below that."""
    if len(records) < HEADER_BYTES:
        return records
    first = read_header(records)
    if first.is_control or not first.base_offset < log_end_offset < first.next_offset:
        return records
    rest = memoryview(records)[first.size_bytes :]
    if not verify_crc(records, 0, first):
        raise CorruptMessageError(batch_faults.wrong_checksum(first.base_offset) + ", as the leader sent it")
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
