"""Checks batches that were read from a disk, where they may have rotted: checksum, offsets, epochs. Pure.

The checksum leaves out two fields, which are compared with the log: the base offset must continue the batch before, and
the leader epoch must be the one in the epoch cache. Damage raises `CorruptFileError` with the position. `segment.py`
knows which bytes must be checked; the broker decides what happens to a damaged log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock import epochs
from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.batch import iter_checked
from penstock.types import NO_EPOCH, EpochEntry
from storage.segment import batch_faults
from storage.segment.segment import Place


class Span(NamedTuple):
    """A part of a .log that was read, between two places; its first batch must hold `start_offset`."""

    begin: Place
    end: Place
    start_offset: int


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """The facts about one log with which its batches are compared."""

    epoch_entries: Sequence[EpochEntry]

    def check(self, path: str, records: bytes, span: Span) -> None:
        """Check the batches of `path` in the span."""
        expected = min(span.begin.offset, span.start_offset)
        known = self.epoch_entries[0].epoch if len(self.epoch_entries) == 1 else NO_EPOCH
        end = 0
        try:
            for at, after, base_offset, next_offset, leader_epoch, crc_is_right in iter_checked(records):
                if not crc_is_right or base_offset != expected or leader_epoch != known:
                    why = self._wrong((base_offset, next_offset, leader_epoch), crc_is_right, expected)
                    if why is not None:
                        raise CorruptFileError(path, span.begin.position + at, why)
                expected, end = next_offset, after
        except CorruptMessageError as damage:
            raise CorruptFileError(path, span.begin.position + end, str(damage)) from damage
        if end != len(records):
            raise CorruptFileError(path, span.begin.position + end, f"{len(records) - end} bytes are no whole batch")
        if expected != span.end.offset:
            why = f"the batches end at offset {expected}, but {span.end.offset} follows"
            raise CorruptFileError(path, span.end.position, why)

    def _wrong(self, placed: tuple[int, int, int], crc_is_right: bool, expected: int) -> str | None:
        """Why a batch that failed the quick comparison is damaged; None if it is not."""
        base_offset, next_offset, leader_epoch = placed
        if not crc_is_right:
            return batch_faults.wrong_checksum(base_offset)
        if base_offset != expected:
            return batch_faults.wrong_offset(base_offset, expected)
        last_offset = next_offset - 1  # the log may start within the batch
        epoch = epochs.epoch_for_offset(self.epoch_entries, last_offset)
        if leader_epoch != epoch:
            return batch_faults.wrong_epoch(leader_epoch, last_offset, epoch)
        return None
