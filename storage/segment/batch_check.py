"""Checks batches that were read from a disk, where they may have rotted: checksum, offsets, epochs. Pure.

The checksum leaves out two fields, which are compared with the log: the base offset must continue the batch before, and
the leader epoch must be the one in the epoch cache. Damage raises `CorruptFileError` with the position. `segment.py`
knows which bytes must be checked; the broker decides what happens to a damaged log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES, iter_checked
from penstock.record.verifier import WRONG_CHECKSUM, at_offset, epoch_fault, offset_fault
from penstock.types import NO_EPOCH, EpochEntry
from storage.disk.file_system import Found
from storage.segment import segment_faults
from storage.segment.places import Place


class Span(NamedTuple):
    """A part of a .log that was read, between two places; its first batch must hold `start_offset`."""

    begin: Place
    end: Place
    start_offset: int


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """The facts about one log with which its batches are compared."""

    epoch_entries: Sequence[EpochEntry]

    def check(self, path: str, records: Found, span: Span) -> None:
        """Check the batches of `path` in the span."""
        expected = min(span.begin.offset, span.start_offset)
        known = self.epoch_entries[0].epoch if len(self.epoch_entries) == 1 else NO_EPOCH
        end = 0
        try:
            for at, after, base_offset, next_offset, leader_epoch, crc_is_right in iter_checked(records):
                # A quick comparison first; in a log of several epochs no batch passes it, and `_wrong` finds its epoch.
                if not crc_is_right or base_offset != expected or leader_epoch != known:
                    why = self._wrong((base_offset, next_offset, leader_epoch), crc_is_right, expected)
                    if why is not None:
                        raise CorruptFileError(path, span.begin.position + at, why)
                expected, end = next_offset, after
        except CorruptMessageError as damage:
            why = segment_faults.no_batch(records[end : end + HEADER_BYTES], len(records) - end)
            raise CorruptFileError(path, span.begin.position + end, why) from damage
        if end != len(records):
            raise CorruptFileError(path, span.begin.position + end, segment_faults.partial_batch(records, end))
        why = segment_faults.end_fault(expected, span.end.offset)
        if why is not None:
            raise CorruptFileError(path, span.end.position, why)

    def _wrong(self, placed: tuple[int, int, int], crc_is_right: bool, expected: int) -> str | None:
        """Why a batch that failed the quick comparison is damaged; None if it is not."""
        base_offset, next_offset, leader_epoch = placed
        fault = None if crc_is_right else WRONG_CHECKSUM
        fault = fault or offset_fault(base_offset, expected)
        fault = fault or epoch_fault(leader_epoch, next_offset - 1, self.epoch_entries)
        return None if fault is None else at_offset(base_offset, fault)
