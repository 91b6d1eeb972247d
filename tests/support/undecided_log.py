"""The transactions of a log as a test says that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.replication.partition import Partition
from storage.segment.transaction_index import AbortedRange


@dataclass(slots=True)
class SaidTransactions:
    """In the place of `Log.transactions`."""

    undecided: dict[int, int] = field(default_factory=dict)
    """First offsets, and the offsets of the markers; those of open ones are above every high watermark."""
    ended: list[AbortedRange] = field(default_factory=list)
    open: set[tuple[int, int]] = field(default_factory=set)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def first_undecided(self, high_watermark: int) -> int | None:
        return min((first for first, marker in self.undecided.items() if marker >= high_watermark), default=None)

    def aborted(self, from_offset: int, to_offset: int) -> Sequence[AbortedRange]:
        self.asked.append((from_offset, to_offset))
        return [one for one in self.ended if one.last_offset >= from_offset and one.first_offset < to_offset]

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        return (producer_id, producer_epoch) in self.open


def said_transactions(partition: Partition) -> SaidTransactions:
    said = SaidTransactions()
    partition.log.transactions = said  # type: ignore[assignment]
    return said
