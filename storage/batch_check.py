"""Looks at batches that were read from a disk on which they may have rotted: checksum, offsets, epochs. Pure.

The two fields that the checksum leaves out are compared with what the log knows: offsets follow on (densely, unless
records were taken out of the middle of this log), and the leader epoch is that of the epoch cache. Damage raises
`CorruptFileError` with the position. Not here: which bytes have to be looked at (`segment.py`), what happens to a log
that is damaged (broker).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock import epochs
from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.batch import BatchHeader, iter_headers, verify_crc
from penstock.types import NO_EPOCH, EpochEntry
from storage.segment import Place


class Span(NamedTuple):
    """A part of a .log that was read: between two places, for a reader who wants it to hold `start_offset`."""

    begin: Place
    end: Place
    start_offset: int
    is_end_of_file: bool


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """What is known of one log's batches besides their bytes."""

    epoch_entries: Sequence[EpochEntry]
    may_have_gaps: bool

    def check(self, path: str, records: bytes, span: Span) -> None:
        """The batches of `path` that stand in the span."""
        begin = span.begin
        expected = begin.offset if self.may_have_gaps else min(begin.offset, span.start_offset)
        known = self.epoch_entries[0].epoch if len(self.epoch_entries) == 1 else NO_EPOCH
        end = 0
        try:
            for at, header in iter_headers(records):
                good = verify_crc(records, at, header) and header.leader_epoch == known
                if not good or header.base_offset != expected:
                    self._look_closer(path, begin.position + at, header, (records, at, expected))
                expected, end = header.base_offset + header.last_offset_delta + 1, at + header.size_bytes
        except CorruptMessageError as damage:
            raise CorruptFileError(path, begin.position + end, str(damage)) from damage
        if end != len(records):
            raise CorruptFileError(path, begin.position + end, f"{len(records) - end} bytes are no whole batch")
        if expected != span.end.offset and (span.is_end_of_file or not self.may_have_gaps):
            why = f"the batches end at offset {expected}, but {span.end.offset} follows"
            raise CorruptFileError(path, span.end.position, why)

    def _look_closer(self, path: str, position: int, header: BatchHeader, where: tuple[bytes, int, int]) -> None:
        """Something about the batch is not as in most logs."""
        records, at, expected = where
        if not verify_crc(records, at, header):
            why = f"the checksum of the batch at offset {header.base_offset} is wrong"
            raise CorruptFileError(path, position, why)
        if header.base_offset < expected or (header.base_offset > expected and not self.may_have_gaps):
            raise CorruptFileError(path, position, f"offset {header.base_offset} where {expected} should follow")
        last_offset = header.last_offset  # the log may start within the batch
        epoch = epochs.epoch_for_offset(self.epoch_entries, last_offset)
        if header.leader_epoch != epoch:
            why = f"leader epoch {header.leader_epoch} at offset {last_offset}, which is of epoch {epoch}"
            raise CorruptFileError(path, position, why)
