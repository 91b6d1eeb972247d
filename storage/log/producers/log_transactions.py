"""Tells of the transactions in one log: what readers of committed records wait for, and what they leave out.

    read_committed    ends below `first_undecided`, and leaves out the records of the `aborted` transactions
    a marker          `answer_marker` BEFORE it is appended: it is refused, or not needed

What is told is the log's, up to its end: whether a marker is committed depends on the high watermark, which the caller
knows. After a truncation that no thread has prepared, the first question waits for the disk, as the next append would.
Used from one thread. The rules are in `producer_rules.py` and `transaction_state.py`.
"""

from __future__ import annotations

from penstock.record.markers import Marker
from penstock.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from storage.append.append_info import AppendInfo
from storage.append.producer_rules import needless_marker
from storage.log.producers.producer_log import ProducerLog
from storage.segment.transaction_index import AbortedRange


class LogTransactions:
    """The transactions in one log."""

    __slots__ = ("_producers",)

    def __init__(self, producers: ProducerLog) -> None:
        self._producers = producers

    def first_undecided(self, high_watermark: int) -> int | None:
        """The lowest first offset of all transactions that are open, or whose marker is not below the high watermark;
        None without such a transaction. It may be below the log start."""
        return self._producers.known_now().undecided.first_undecided(high_watermark)

    def aborted(self, from_offset: int, to_offset: int) -> list[AbortedRange]:
        """The aborted transactions that may have records in `from_offset <= offset < to_offset`, by their markers."""
        return self._producers.aborted.overlapping(from_offset, to_offset)

    def open_of(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction; None if none is open."""
        known = self._producers.known_now().get(producer_id)
        if known is None or known.transaction is None or not known.has_open_transaction:
            return None
        return known.transaction.first_offset

    def epoch_of(self, producer_id: int) -> int:
        """The epoch of the producer here; -1 if it is not known."""
        known = self._producers.known_now().get(producer_id)
        return NO_EPOCH if known is None else known.epoch

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer has an open transaction of this epoch."""
        known = self._producers.known_now().get(producer_id)
        return known is not None and known.epoch == producer_epoch and known.has_open_transaction

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The coordinator epoch of the producer's newest marker; -1 if none is known."""
        known = self._producers.known_now().get(producer_id)
        return NO_EPOCH if known is None or known.transaction is None else known.transaction.coordinator_epoch

    def answer_marker(self, marker: Marker, transaction_version: int) -> AppendInfo | None:
        """The answer to a marker that is not needed, like that to a duplicate; None if it is to be appended.

        TRANSACTION_COORDINATOR_FENCED if it is of an earlier coordinator.
        """
        self._producers.must_be_writable()
        known = self._producers.known_now().get(marker.producer_id)
        at = needless_marker(marker, known, transaction_version)
        if at is None or at == NO_OFFSET:
            return None
        return AppendInfo(at, at, NO_TIMESTAMP, NO_TIMESTAMP, 1, 0, is_duplicate=True)

    def __repr__(self) -> str:
        return f"LogTransactions({self._producers.known.undecided!r}, {self._producers.aborted!r})"
