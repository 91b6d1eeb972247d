"""Says of fetched records which topic they are of, by its id, and in which leader epoch each was written. Pure."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from penstock.types import NO_EPOCH, EpochEntry


class Origin(NamedTuple):
    """The topic id, and where the epochs begin; the first one from offset 0 on, so that it is the same for many."""

    topic_id: str
    epochs: tuple[EpochEntry, ...]

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at the offset."""
        at = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[at - 1].epoch if at else NO_EPOCH


NO_ORIGIN = Origin("", ())
"""The origin of records that no consumer has fetched."""
