"""I20: the sequence numbers of the batches that one log has committed, as its producers must have numbered them.

In a log each epoch of a producer id begins with sequence 0 and goes on without a gap, and epochs of an id never fall.
So no batch is there twice, and none behind a later one. After 2^31-1 comes 0. Markers of transactions, and the batches
of coordinators, have no sequence: an epoch may begin with one, and sequences go on behind it.

What the log must know of each producer follows from the same batches: it is remembered here, for I39
(producer_invariants.py).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.record.batch import HEADER, NO_PRODUCER_ID, BatchHeader

SEQUENCES = 1 << 31
WINDOW = 5
"""So many batches of a producer a log must know again."""


class Numbered(NamedTuple):
    """One batch: its first sequence, its first offset, and its last offset behind that."""

    sequence: int
    offset: int
    last_offset_delta: int


class Appended(NamedTuple):
    """The content of a log about one producer: its newest epoch, and the newest batches of it, oldest first."""

    epoch: int
    batches: tuple[Numbered, ...]

    @property
    def next_sequence(self) -> int:
        if not self.batches:
            return 0
        newest = self.batches[-1]
        return (newest.sequence + newest.last_offset_delta + 1) % SEQUENCES


NOTHING = Appended(-1, ())


class Sequences:
    """The sequences of one log, from its first record on."""

    def __init__(self) -> None:
        self.appended: dict[int, Appended] = {}
        """By producer id."""
        self.later_epochs = 0
        """Begun behind another epoch of the same producer."""

    def fault(self, raw: bytes) -> str | None:
        """Takes the next batch; what is wrong with its place behind the others, None if nothing is."""
        header = BatchHeader(*HEADER.unpack_from(raw))
        if header.producer_id == NO_PRODUCER_ID:
            return None
        before = self.appended.get(header.producer_id, NOTHING)
        if header.is_control or header.base_sequence < 0:
            return self._unnumbered(header, before)
        is_later = header.producer_epoch > before.epoch
        first = 0 if is_later else before.next_sequence
        self.later_epochs += is_later and before is not NOTHING
        batch = Numbered(header.base_sequence, header.base_offset, header.last_offset_delta)
        earlier = before.batches[1 - WINDOW :] if header.producer_epoch == before.epoch else ()
        self.appended[header.producer_id] = Appended(header.producer_epoch, (*earlier, batch))
        if header.producer_epoch >= before.epoch and header.base_sequence == first:
            return None
        return (
            f"producer {header.producer_id} in epoch {header.producer_epoch} with sequence {header.base_sequence},"
            f" where sequence {first} of epoch {max(before.epoch, header.producer_epoch)} comes next"
        )

    def _unnumbered(self, header: BatchHeader, before: Appended) -> str | None:
        if header.producer_epoch > before.epoch:
            self.appended[header.producer_id] = Appended(header.producer_epoch, ())
        elif header.producer_epoch < before.epoch:
            return f"a marker of producer {header.producer_id} in epoch {header.producer_epoch} behind {before.epoch}"
        return None
