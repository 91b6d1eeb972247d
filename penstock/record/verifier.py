"""The checks of a record batch, each written once with the text of its fault, for all callers. Pure.

A check returns None, or the fault as the end of a sentence. The caller knows the subject ("the batch at byte 17", "the
leader's batch at offset 5") and decides what follows: an append refuses the batch, a reader refuses the file, recovery
cuts or refuses the log, `penstock log verify` names the fault and goes on behind it.

    check                what must hold                                     asked by
    batch.read_header    magic, length, count and delta make sense; raises  everybody
    cut_off_fault        the file holds the whole batch                     walks over a .log
    batch.verify_crc     the bytes are what the producer wrote              appends, walks over a .log, consumers
    offset_fault         the batch begins where the one before ends         followers, walks over a .log
    epoch_fault          the leader epoch is the one that the log knows     recovery, reads of old bytes, the cleaner
    epoch_order_fault    epochs never fall                                  followers
    count_fault          no more records than offsets                       followers
    dense_count_fault    a record for each offset, and at least one         leaders
    room_fault           the records have room in the body                  appends, decoding

All but the checksum take constant time. A caller that looks at very many batches at once (`batch.iter_checked`)
compares first, and calls a check here only for a difference. Not here: the rules for producers alone
(storage/append/header_check.py), the segment around the batch (storage/segment/segment_faults.py), the content of the
records (`decoding.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock import epochs
from penstock.record.batch import MIN_RECORD_BYTES, BatchHeader
from penstock.types import EpochEntry

WRONG_CHECKSUM = "has a wrong checksum"
"""The words for the fault that `batch.verify_crc` finds."""


def at_offset(offset: int, fault: str) -> str:
    """The fault of a batch that is known by its offset, as a sentence."""
    return f"the batch at offset {offset} {fault}"


def cut_off_fault(header: BatchHeader, left_bytes: int) -> str | None:
    """`left_bytes` are there from its first byte on."""
    missing_bytes = header.size_bytes - left_bytes
    return None if missing_bytes <= 0 else f"is cut off: its last {missing_bytes} bytes are missing"


def offset_fault(offset: int, expected: int) -> str | None:
    return None if offset == expected else f"stands where offset {expected} should follow"


def epoch_fault(leader_epoch: int, last_offset: int, entries: Sequence[EpochEntry]) -> str | None:
    """The last offset counts, because a log may start within the batch."""
    known = epochs.epoch_for_offset(entries, last_offset)
    if leader_epoch == known:
        return None
    return f"has leader epoch {leader_epoch}, but its last offset {last_offset} is of epoch {known}"


def epoch_order_fault(leader_epoch: int, latest_epoch: int) -> str | None:
    return None if leader_epoch >= latest_epoch else f"has leader epoch {leader_epoch}, after epoch {latest_epoch}"


def count_fault(header: BatchHeader) -> str | None:
    """A batch that was compacted has fewer records than offsets."""
    return None if header.record_count <= header.last_offset_delta + 1 else _announces(header)


def dense_count_fault(header: BatchHeader) -> str | None:
    if header.record_count == header.last_offset_delta + 1 and header.record_count:
        return None
    return f"{_announces(header)}; a producer's batch has one for each, and at least one"


def room_fault(record_count: int, room_bytes: int) -> str | None:
    """`room_bytes` of unpacked records are there, or can be."""
    if record_count * MIN_RECORD_BYTES <= room_bytes:
        return None
    fit = room_bytes // MIN_RECORD_BYTES
    return f"announces {record_count} records, but has room for {fit}; each takes {MIN_RECORD_BYTES} bytes at least"


def _announces(header: BatchHeader) -> str:
    return f"announces {header.record_count} records for {header.last_offset_delta + 1} offsets"
