"""Knows which transactions the batches of one pass belong to, and which markers are still needed. Pure.

A pass covers only offsets below the last stable offset, so every transaction there is decided. The log's index of
aborted transactions tells which were aborted, each by its producer, its first offset and the offset of its marker. A
transaction that is not among them is committed.

    records of an aborted transaction   are dropped, and their keys are not in the offset map
    a marker                            is needed while a batch of its transaction stays, with records or without: a log
                                        that is read anew would otherwise find an open transaction there
    a marker that is not needed         gets a delete horizon (KIP-534), and goes after it, like a tombstone: a follower
                                        that copied records before they were removed must find out how they ended
    an entry of the aborted index       stays as long as its marker is needed

An entry goes in one pass, and its marker in a later one. Otherwise a crash between the swap of a segment and that of
its index could leave an entry without a marker, which would hide later records of the same producer from readers.

The batches of a producer come in the order of the log, and it has one transaction at a time. Not here: which batches
the producers need (`kept_offsets` of the plan), and the bytes (`batch_filter.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.record.batch import BatchHeader
from storage.segment.transaction_index import AbortedRange


class AbortedBatches:
    """Tells whether a batch is of an aborted transaction. It is asked in any order."""

    __slots__ = ("_by_producer",)

    def __init__(self, aborted: Iterable[AbortedRange]) -> None:
        self._by_producer: dict[int, list[AbortedRange]] = {}
        for one in sorted(aborted, key=lambda found: found.first_offset):
            self._by_producer.setdefault(one.producer_id, []).append(one)

    def has(self, header: BatchHeader) -> bool:
        """True for a data batch of an aborted transaction."""
        if not header.is_transactional or header.is_control:
            return False
        return self._find(header) is not None

    def ended_by(self, marker: BatchHeader) -> AbortedRange | None:
        """The aborted transaction that this marker ends; None for any other."""
        found = self._find(marker)
        return found if found is not None and found.last_offset == marker.last_offset else None

    def _find(self, header: BatchHeader) -> AbortedRange | None:
        ranges = self._by_producer.get(header.producer_id)
        if ranges is None:
            return None
        offset, low, high = header.base_offset, 0, len(ranges)
        while low < high:
            middle = (low + high) // 2
            if ranges[middle].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return ranges[low] if low < len(ranges) and ranges[low].first_offset <= offset else None

    def __repr__(self) -> str:
        return f"AbortedBatches({sum(map(len, self._by_producer.values()))} transactions)"


class CleanedTransactions:
    """Decides for one pass which markers and which entries of the aborted index the log still needs.

    The pass reports each transactional batch that stays, and each marker, in the order of the log."""

    __slots__ = ("_aborted", "_has_batches", "_needed")

    def __init__(self, aborted: AbortedBatches) -> None:
        self._aborted = aborted
        self._has_batches: set[int] = set()
        """The producers that have a batch behind their last marker."""
        self._needed: list[AbortedRange] = []

    def batch_stays(self, header: BatchHeader) -> None:
        """The data batch stays in the log, with records or without."""
        if header.is_transactional:
            self._has_batches.add(header.producer_id)

    def is_needed(self, marker: BatchHeader) -> bool:
        """True if a batch of the transaction stays that this marker ends. Call it for every marker, once."""
        if marker.producer_id not in self._has_batches:
            return False
        self._has_batches.remove(marker.producer_id)
        aborted = self._aborted.ended_by(marker)
        if aborted is not None:
            self._needed.append(aborted)
        return True

    def take_needed(self) -> tuple[AbortedRange, ...]:
        """The entries of the aborted index that stay, of the markers since the last call."""
        needed, self._needed = tuple(self._needed), []
        return needed

    def __repr__(self) -> str:
        return f"CleanedTransactions({self._aborted!r})"
