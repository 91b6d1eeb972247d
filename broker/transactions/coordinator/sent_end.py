"""One decided transaction while its markers are being written: which partitions lack theirs, and where each of them is.

    a queue of a broker's       it waits for a call, or is in one (marker_calls.py)
    None                        it rests: its partition has no leader, or the last try failed
    gone from `open`            its marker is written and committed, or its topic was deleted

Not here: which broker is asked, and when (marker_sender.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.transactions.marker_port import TransactionEnd
from penstock.messages.transactions.markers import MarkedPartition, TxnMarker
from penstock.types import TopicPartition

NOBODY: Final = -1


class OpenPartition:
    """A partition that lacks its marker."""

    __slots__ = ("asked", "attempts", "broker_id")

    def __init__(self) -> None:
        self.broker_id = NOBODY
        """The broker that has it to do, or had it at last."""
        self.attempts = 0
        """Tries that failed."""
        self.asked: object = None
        """Its place in a broker's queue or in a call; None while it rests. An answer counts for its own call alone."""


class SentEnd:
    """One decided transaction while its markers are being written. Compared by identity."""

    __slots__ = ("began_ms", "coordinator_epoch", "end", "is_withdrawn", "open", "stamp_ms", "when_written")

    def __init__(
        self,
        end: TransactionEnd,
        coordinator_epoch: int,
        stamp_ms: int,
        began_ms: int,
        when_written: Callable[[], None],
    ) -> None:
        """`stamp_ms` is the sender's (`MarkerSender.stamp_ms`). `when_written` is called once, in a turn of the loop of
        its own, when no partition is open."""
        self.end, self.coordinator_epoch, self.stamp_ms, self.began_ms = end, coordinator_epoch, stamp_ms, began_ms
        self.when_written = when_written
        self.open = {partition: OpenPartition() for partition in end.partitions}
        self.is_withdrawn = False
        """The lead of the coordinator's partition is over: another one sends it."""

    def marker(self, partitions: tuple[MarkedPartition, ...]) -> TxnMarker:
        end = self.end
        return TxnMarker(
            end.producer_id,
            end.producer_epoch,
            end.is_committed,
            self.coordinator_epoch,
            partitions,
            end.transaction_version,
            self.stamp_ms,
        )

    def __repr__(self) -> str:
        return f"SentEnd({self.end.transactional_id!r}, {len(self.open)} partitions open)"


Marked = Callable[[SentEnd, TopicPartition], None]
"""The partition has the marker, durably."""
NotMarked = Callable[[SentEnd, TopicPartition, Exception], None]
"""Nobody knows whether it has."""
