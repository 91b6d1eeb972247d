"""Looks at batches that were read from a disk on which they may have rotted: checksum, offsets, epochs. Pure.

The two fields that the checksum leaves out are compared with what the log knows: offsets follow on (densely, unless
records were taken out of the middle of this log), and the leader epoch is that of the epoch cache. Damage raises
`CorruptFileError` with the position. Not here: which bytes have to be looked at (`segment.py`), what happens to a log
that is damaged (broker).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock import epochs
from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.batch import BatchHeader, iter_headers, verify_crc
from penstock.types import EpochEntry
from storage.segment import Place


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """What is known of one log's batches besides their bytes."""

    epoch_entries: Sequence[EpochEntry]
    may_have_gaps: bool

    def check(self, path: str, records: bytes, begin: Place, start_offset: int) -> None:
        """The batches of `path` from `begin` on, of which the first is to hold `start_offset`."""
        expected = begin.offset if self.may_have_gaps else min(begin.offset, start_offset)
        end = 0
        try:
            for at, header in iter_headers(records):
                why = self._wrong(records, at, header, expected)
                if why is not None:
                    raise CorruptFileError(path, begin.position + at, why)
                expected, end = header.next_offset, at + header.size_bytes
        except CorruptMessageError as damage:
            raise CorruptFileError(path, begin.position + end, str(damage)) from damage
        if end != len(records):
            raise CorruptFileError(path, begin.position + end, f"{len(records) - end} bytes are no whole batch")

    def _wrong(self, records: bytes, at: int, header: BatchHeader, expected: int) -> str | None:
        if not verify_crc(records, at, header):
            return f"the checksum of the batch at offset {header.base_offset} is wrong"
        if header.base_offset < expected or (header.base_offset > expected and not self.may_have_gaps):
            return f"offset {header.base_offset} where {expected} should follow"
        epoch = epochs.epoch_for_offset(self.epoch_entries, header.last_offset)  # the log may start within the batch
        if header.leader_epoch != epoch:
            return f"leader epoch {header.leader_epoch} at offset {header.last_offset}, which is of epoch {epoch}"
        return None
