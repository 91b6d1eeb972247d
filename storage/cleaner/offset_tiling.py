"""Covers the offsets of removed batches by the batches that stay, so that offsets are dense in a cleaned log as well.

A batch's base offset is outside its checksum; what tells that it is right is the batch before, which ends there. So no
gap is left between batches. The one that stays before a removed one is stretched: its last offset delta, which the
checksum covers, then reaches the next that stays. Where that must not be, an *empty* batch takes the place of the
removed one and is stretched in turn:

- nothing stays before it in this segment;
- it is of another leader epoch: every offset keeps its epoch, or a follower that copies the log would have other epochs
  than its leader has (KIP-101 compares them);
- the one before has a producer id, whose sequence numbers are counted by the last offset delta, or is a control batch;
- the delta would exceed its four bytes.

Readers take the records they find and go on after the last offset delta, as Kafka's clients do. Not here: what is
removed (`batch_filter.py`), the file (`cleaned_file.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, read_header
from penstock.record.rewrite import emptied, stretched
from storage.disk.file_system import Bytes

MAX_DELTA = 2**31 - 1


class OffsetTiling:
    """Told of every batch of a segment group in order; holds the last one back until it knows what follows."""

    __slots__ = ("_batch", "_header", "_next_offset", "_write")

    def __init__(self, write: Callable[[Bytes], None]) -> None:
        self._write = write
        self._header: BatchHeader | None = None
        self._batch: Bytes = b""
        self._next_offset = 0

    def keep(self, header: BatchHeader, batch: Bytes) -> None:
        """The batch stays, with these bytes; `header` is the one that it has in the log."""
        self.finish()
        self._header, self._batch, self._next_offset = header, batch, header.next_offset

    def keep_empty(self, header: BatchHeader, batch: Bytes) -> bool:
        """A batch without records is needed only where the one before cannot be stretched; True when it was."""
        if self._may_stretch(header):
            self._next_offset = header.next_offset
            return True
        self.keep(header, batch)
        return False

    def remove(self, header: BatchHeader) -> None:
        """Nothing of the batch stays."""
        if self._may_stretch(header):
            self._next_offset = header.next_offset
            return
        nobodys = header._replace(
            producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE
        )
        self.keep(nobodys, emptied(nobodys))

    def _may_stretch(self, removed: BatchHeader) -> bool:
        before = self._header
        if before is None or before.is_control or before.producer_id != NO_PRODUCER_ID:
            return False
        fits = removed.next_offset - 1 - before.base_offset <= MAX_DELTA
        return fits and before.leader_epoch == removed.leader_epoch

    def finish(self) -> None:
        """Write what is held back; at the end of the group, and no batch may follow then without a `keep`."""
        header, self._header = self._header, None
        if header is None:
            return
        if self._next_offset == header.next_offset:
            self._write(self._batch)
        else:
            self._write(stretched(read_header(self._batch), self._batch, self._next_offset))

    def __repr__(self) -> str:
        return f"OffsetTiling(up to {self._next_offset})"
