"""Reads the batch headers of a fetched answer: which batches count, where they end, and in which epochs they are.

A reader of committed records drops the batches of aborted transactions here, whole and unread. The answer names each
such transaction by its producer id and first offset; the producer's next control batch, the marker, ends it. Every
answer names all that its records touch, so nothing is remembered from one to the next. The cleaner may stretch a batch
over removed ones behind it, but never moves its first offset, so that alone is compared. Pure.

Not here: what the answer means for a position (positions.py), and decoding (decode.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.errors import CorruptMessageError, PenstockError
from penstock.messages.fetch import AbortedTransaction
from penstock.record.batch import BatchHeader, iter_headers
from penstock.types import NO_EPOCH, EpochEntry


class AnsweredBatches(NamedTuple):
    """`records`: the batches that count, up to the first that cannot be read. `last`: the last batch that was looked
    at, or None. `damage`: why reading ends there, unless the answer ends there."""

    records: bytes
    last: BatchHeader | None
    epochs: tuple[EpochEntry, ...]
    damage: PenstockError | None


def read_answer(state: PartitionState, records: bytes, aborted: Sequence[AbortedTransaction] = ()) -> AnsweredBatches:
    """Every whole batch before the first damaged header, or before the first one of a later epoch than the range may
    have; without those of aborted transactions."""
    last, good_bytes = None, 0
    epochs: list[EpochEntry] = []
    damage: PenstockError | None = None
    epoch_max, end_offset = state.epoch_max, state.end_offset or 0
    dropping = _Dropping(aborted) if aborted else None
    try:
        for at, header in iter_headers(records):
            if NO_EPOCH < epoch_max < header.leader_epoch and header.base_offset < end_offset:
                damage = state.replaced_at(header.base_offset, header.leader_epoch)
                break
            if last is None or header.leader_epoch != last.leader_epoch:
                epochs.append(EpochEntry(header.leader_epoch, header.base_offset if epochs else 0))
            last, good_bytes = header, at + header.size_bytes
            if dropping is not None:
                dropping.look(at, header)
    except CorruptMessageError as error:
        damage = error
    good = records if good_bytes == len(records) else records[:good_bytes]
    return AnsweredBatches(dropping.kept(good) if dropping is not None else good, last, tuple(epochs), damage)


class _Dropping:
    """Finds the batches of aborted transactions in one answer."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._later = sorted(aborted, key=lambda one: one.first_offset, reverse=True)  # the next one is the last
        self._open: set[int] = set()  # producer ids
        self._dropped: list[tuple[int, int]] = []

    def look(self, at: int, header: BatchHeader) -> None:
        if not header.is_transactional:
            return
        while self._later and self._later[-1].first_offset <= header.base_offset:
            self._open.add(self._later.pop().producer_id)
        if header.producer_id not in self._open:
            return
        if header.is_control:
            self._open.discard(header.producer_id)
        else:
            self._dropped.append((at, at + header.size_bytes))

    def kept(self, records: bytes) -> bytes:
        """The records without what is dropped; copied only where something is."""
        if not self._dropped:
            return records
        with memoryview(records) as view:
            starts = [0, *(end for _, end in self._dropped)]
            ends = [*(start for start, _ in self._dropped), len(records)]
            return b"".join(view[start:end] for start, end in zip(starts, ends, strict=True))
