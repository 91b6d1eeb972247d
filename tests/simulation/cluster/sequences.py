"""I20: the sequence numbers of the batches that one log has committed, as its producers must have numbered them.

In a log each epoch of a producer id begins with sequence 0 and goes on without a gap, and epochs of an id never fall.
So no batch is there twice, and none behind a later one. After 2^31-1 comes 0.
"""

from __future__ import annotations

from penstock.record.batch import HEADER, NO_PRODUCER_ID, BatchHeader

SEQUENCES = 1 << 31


class Sequences:
    """Of one log, from its first record on."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        """By producer id: the epoch of its newest batch, and the sequence of that batch's last record."""

    def fault(self, raw: bytes) -> str | None:
        """Takes the next batch; what is wrong with its place behind the others, None if nothing is."""
        header = BatchHeader(*HEADER.unpack_from(raw))
        if header.producer_id == NO_PRODUCER_ID:
            return None
        epoch, last = self._last.get(header.producer_id, (-1, -1))
        first = 0 if header.producer_epoch > epoch else (last + 1) % SEQUENCES
        end = (header.base_sequence + header.last_offset_delta) % SEQUENCES
        self._last[header.producer_id] = (header.producer_epoch, end)
        if header.producer_epoch >= epoch and header.base_sequence == first:
            return None
        return (
            f"producer {header.producer_id} in epoch {header.producer_epoch} with sequence {header.base_sequence},"
            f" where sequence {first} of epoch {max(epoch, header.producer_epoch)} comes next"
        )
