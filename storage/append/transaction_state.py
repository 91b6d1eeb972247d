"""Knows the transactions of one log that a reader of committed records must wait for. Pure.

A transaction is open in a log from its first batch there to its marker. It is undecided while it is open, and then
until its marker is below the high watermark: until then a marker may still be lost. The last stable offset is the first
offset of all undecided transactions, or the high watermark if it is lower.

The ended ones are kept as pairs of first offset and marker, and only those that can be the lowest: one that ended
earlier, and began later than another one that ended, never is. So both numbers ascend in the list. On a replica that is
not asked, the list would grow with every transaction: above `ENDED_MAX` neighbours become one, which begins with the
first and ends with the second. That is too careful for a while, and never wrong.

`producer_state.py` says when a transaction opens and ends.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.types import NO_EPOCH, NO_OFFSET

ENDED_MAX = 1_000
SAVED_MAX = 64
"""The most ended transactions in a snapshot."""


class ProducerTransaction(NamedTuple):
    """A transactional producer in one log, beside its numbered batches."""

    first_offset: int = NO_OFFSET
    """The first offset of its open transaction; -1: none is open."""
    coordinator_epoch: int = NO_EPOCH
    """The coordinator epoch of its newest marker; -1: none is known."""
    unnumbered_offset: int = NO_OFFSET
    """The base offset of its newest batch without a sequence: a marker, or a coordinator's batch; -1: none is known."""


NO_TRANSACTION = ProducerTransaction()


class EndedRange(NamedTuple):
    """A transaction that is over: it is decided once its marker is below the high watermark."""

    first_offset: int
    marker_offset: int


class UndecidedTransactions:
    """The open transactions of one log, and those that ended a short while ago."""

    __slots__ = ("_ended", "_open", "_undo")

    def __init__(self, opened: Mapping[int, int] | None = None, ended: Iterable[EndedRange] = ()) -> None:
        """`opened`: producer ids and first offsets, in any order; `ended`: as `saved_ended` told it."""
        self._open: dict[int, int] = dict(sorted((opened or {}).items(), key=lambda one: one[1]))
        """The open transactions by producer id, ascending by first offset: a new one opens at the log end."""
        self._ended = deque(ended)
        self._undo: list[tuple[int, int, tuple[EndedRange, ...]] | int] = []
        """The append under way: the producer id of each that it opened; for each that it ended the producer id, the
        first offset, and the pairs that it has replaced."""

    def open(self, producer_id: int, offset: int) -> None:
        self._open[producer_id] = offset
        self._undo.append(producer_id)

    def end(self, producer_id: int, marker_offset: int) -> int:
        """The first offset of the transaction; it is open."""
        first = self._open.pop(producer_id)
        replaced: list[EndedRange] = []
        while self._ended and self._ended[-1].first_offset >= first:
            replaced.append(self._ended.pop())
        self._ended.append(EndedRange(first, marker_offset))
        self._undo.append((producer_id, first, tuple(reversed(replaced))))
        return first

    def forget(self, producer_id: int) -> None:
        """The open transaction of a producer is not known any more."""
        self._open.pop(producer_id, None)

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    def stable_after(self, marker_offset: int) -> int:
        """The last stable offset as soon as this newest marker is below the high watermark."""
        first = self.first_open
        return marker_offset + 1 if first is None else first

    def first_undecided(self, high_watermark: int) -> int | None:
        """The lowest first offset of the transactions that are open, or have their marker at or above the high
        watermark. Transactions below it are decided for good."""
        while self._ended and self._ended[0].marker_offset < high_watermark:
            self._ended.popleft()
        first = self.first_open
        if self._ended and (first is None or self._ended[0].first_offset < first):
            return self._ended[0].first_offset
        return first

    def open_offsets(self) -> Iterator[tuple[int, int]]:
        """Producer ids and first offsets, ascending by these."""
        return iter(self._open.items())

    def begin_append(self) -> None:
        """Makes `take_back` return to this state from now on."""
        self._undo.clear()
        if len(self._ended) > ENDED_MAX:
            self._ended = deque(_merged(self._ended))

    def take_back(self) -> None:
        """The append failed: its batches and markers were never there."""
        for step in reversed(self._undo):
            if isinstance(step, int):
                del self._open[step]
                continue
            producer_id, first, replaced = step
            self._ended.pop()
            self._ended.extend(replaced)
            behind = list(self._open.items())
            insort(behind, (producer_id, first), key=lambda one: one[1])
            self._open = dict(behind)
        self._undo.clear()

    def saved_ended(self) -> tuple[EndedRange, ...]:
        """The ended transactions for a snapshot, at most `SAVED_MAX`."""
        ended = list(self._ended)
        while len(ended) > SAVED_MAX:
            ended = _merged(ended)
        return tuple(ended)

    def __repr__(self) -> str:
        return f"UndecidedTransactions({len(self._open)} open, {len(self._ended)} ended)"


def _merged(ended: Iterable[EndedRange]) -> list[EndedRange]:
    """Merges neighbours: half as many ranges remain."""
    found = list(ended)
    pairs = [found[at : at + 2] for at in range(0, len(found), 2)]
    return [EndedRange(pair[0].first_offset, pair[-1].marker_offset) for pair in pairs]
