"""Covers the offsets of removed batches with the batches that stay, so that a cleaned log has dense offsets too.

The checksum of a batch does not cover its base offset. A base offset is proved right by the batch before it, which must
end there; so no gap may be left between batches. The batch that stays before a removed one is *stretched*: its last
offset delta, which its checksum covers, then reaches the next batch that stays.

In four cases the batch before cannot be stretched. An *empty* batch then replaces the removed one, and is stretched
over the removed ones behind it:

- no batch stays before it in this segment;
- the batch before has another leader epoch. Every offset must keep its epoch, or a follower that copies the log has
  other epochs than its leader, and epochs are what a fetch compares (KIP-101);
- the batch before is a control batch, or has a producer id: sequence numbers are counted by the last offset delta;
- the delta would exceed its four bytes.

A reader takes the records of a batch and goes on after its last offset delta, as Kafka's clients do. `batch_filter.py`
decides what is removed; `cleaned_file.py` writes the file.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.record.batch import (
    CONTROL_BIT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)
from penstock.record.rewrite import emptied, stretched
from storage.disk.file_system import Bytes

MAX_DELTA = 2**31 - 1


class OffsetTiling:
    """Is given every batch of a segment group in order. It holds a kept batch back until the next one is kept."""

    __slots__ = ("_batch", "_header", "_next_offset", "_write")

    def __init__(self, write: Callable[[Bytes], None]) -> None:
        self._write = write
        self._header: BatchHeader | None = None
        self._batch: Bytes = b""
        self._next_offset = 0

    def keep(self, header: BatchHeader, batch: Bytes) -> None:
        """The batch stays, with these bytes; `header` is its header in the log."""
        self.finish()
        self._header, self._batch, self._next_offset = header, batch, header.next_offset

    def keep_empty(self, header: BatchHeader, batch: Bytes) -> bool:
        """A batch without records stays only if the one before cannot be stretched over it; True if it was
        stretched."""
        if self._may_stretch(header):
            self._next_offset = header.next_offset
            return True
        self.keep(header, batch)
        return False

    def remove(self, header: BatchHeader) -> None:
        """The batch is removed."""
        if self._may_stretch(header):
            self._next_offset = header.next_offset
            return
        nobodys = header._replace(
            attributes=header.attributes & ~(TRANSACTIONAL_BIT | CONTROL_BIT),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
        )
        self.keep(nobodys, emptied(nobodys))

    def _may_stretch(self, removed: BatchHeader) -> bool:
        before = self._header
        if before is None or before.is_control or before.producer_id != NO_PRODUCER_ID:
            return False
        fits = removed.next_offset - 1 - before.base_offset <= MAX_DELTA
        return fits and before.leader_epoch == removed.leader_epoch

    def finish(self) -> None:
        """Write the batch that is held back. Called at the end of the group too; after that, `keep` comes first."""
        header, self._header = self._header, None
        if header is None:
            return
        if self._next_offset == header.next_offset:
            self._write(self._batch)
        else:
            self._write(stretched(read_header(self._batch), self._batch, self._next_offset))

    def __repr__(self) -> str:
        return f"OffsetTiling(up to {self._next_offset})"
