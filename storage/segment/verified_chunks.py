"""Reads a full segment from its beginning, many whole batches at a time, and checks every batch.

The cleaner may give a batch a new checksum, so rot that it copied could not be noticed any more.
Therefore each batch is checked BEFORE it is handed out: its checksum, and the two fields outside it (the base offset
continues the batch before, the epoch is the log's). Damage raises `CorruptFileError` with the position; no batch is
skipped.

The broker decides what happens to a damaged log; `segment.py` reads for consumers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES, BatchHeader
from penstock.record.verifier import at_offset, epoch_fault
from penstock.types import EpochEntry
from storage.segment import segment_faults
from storage.segment.batch_scan import LogFile, must_be_sound, must_begin

CHUNK_BYTES = 1024 * 1024


class Chunk(NamedTuple):
    """Whole batches of the file from `position` on; for each, where it is in `data`, and its header."""

    position: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]
    size_bytes: int
    """The size of the whole batches; `data` may go on with a part of the next one."""


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """One segment's file, and the log's epochs to compare its batches with."""

    file: LogFile
    epoch_entries: Sequence[EpochEntry]

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        position, expected, wanted = 0, self.file.base_offset, chunk_bytes
        while position < self.file.size_bytes:
            data = self.file.read(min(wanted, self.file.size_bytes - position), position)
            chunk = self._whole_batches(position, data, expected)
            if not chunk.batches:  # it is larger than the chunk
                wanted = must_begin(self.file, position, data, 0, expected).size_bytes
                continue
            yield chunk
            position, wanted = position + chunk.size_bytes, chunk_bytes
            expected = chunk.batches[-1][1].next_offset
        why = segment_faults.end_fault(expected, self.file.end_offset)
        if why is not None:
            raise CorruptFileError(self.file.path, position, why)

    def _whole_batches(self, position: int, data: bytes, expected: int) -> Chunk:
        batches: list[tuple[int, BatchHeader]] = []
        at = 0
        while len(data) - at >= HEADER_BYTES or position + len(data) == self.file.size_bytes != position + at:
            header = must_begin(self.file, position + at, data, at, expected)
            if at + header.size_bytes > len(data):
                break
            must_be_sound(self.file, position + at, data, at, header)
            self._must_be_of_its_epoch(position + at, header)
            batches.append((at, header))
            at += header.size_bytes
            expected = header.next_offset
        return Chunk(position, data, batches, at)

    def _must_be_of_its_epoch(self, position: int, header: BatchHeader) -> None:
        """Checks a batch's epoch, as far back as the epochs of the log reach."""
        if not self.epoch_entries or header.last_offset < self.epoch_entries[0].start_offset:
            return
        fault = epoch_fault(header.leader_epoch, header.last_offset, self.epoch_entries)
        if fault is not None:
            raise CorruptFileError(self.file.path, position, at_offset(header.base_offset, fault))
