"""Remembers the records whose outputs were refused, and how many records a transaction takes meanwhile.

A broker refuses an output after its transaction has taken many, and does not always say which. So each transaction that
ends this way is followed by one of half as many records, until there is one alone: that is at fault. Each that is
committed is followed by one of twice as many. A record at fault is not handled again: it has its verdict. Pure. Not
here: that verdict (verdicts.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.errors import PenstockError
from penstock.types import TopicPartition

WIDE_RECORDS: Final = 1_000
"""A limit that has doubled to this many records is lifted."""


class OutputRefused(Exception):
    """A record is at fault, and a part of its outputs is in the transaction: it is undone."""


class RefusedOutputs:
    """The refusals of one processor."""

    def __init__(self) -> None:
        self._errors: dict[TopicPartition, dict[int, PenstockError]] = {}
        self._records_max: int | None = None

    def of(self, record: ConsumerRecord) -> PenstockError | None:
        """The error with which an output of this record was refused."""
        return self._errors.get(TopicPartition(record.topic, record.partition), {}).get(record.offset)

    def note(self, record: ConsumerRecord, error: PenstockError) -> None:
        """The record is at fault."""
        self._errors.setdefault(TopicPartition(record.topic, record.partition), {})[record.offset] = error

    def on_undone(self, records: Sequence[ConsumerRecord]) -> None:
        """A transaction of these is undone because of one of them."""
        self._records_max = max(len(records) // 2, 1)

    def on_refused(self, records: Sequence[ConsumerRecord], error: PenstockError) -> bool:
        """A broker has refused an output of one of these. False where it is the dead letter of the only one."""
        if len(records) > 1:
            self.on_undone(records)
        elif self.of(records[0]) is None:
            self.note(records[0], error)
        else:
            return False
        return True

    def on_committed(self, ends: Mapping[TopicPartition, ConsumerRecord]) -> None:
        """Forgets the refusals in a transaction AFTER it is committed; `ends` has its last record of each partition.
        Lifts or doubles the limit of records."""
        if self._records_max is not None:
            self._records_max = self._records_max * 2 if self._records_max < WIDE_RECORDS else None
        for partition in self._errors.keys() & ends.keys():
            left = {at: error for at, error in self._errors[partition].items() if at > ends[partition].offset}
            self._errors[partition] = left
            if not left:
                del self._errors[partition]

    def records_max(self, configured: int | None) -> int | None:
        """The most records of the next transaction; None: what a poll gives."""
        if self._records_max is None or configured is None:
            return self._records_max or configured
        return min(self._records_max, configured)

    def __repr__(self) -> str:
        return f"RefusedOutputs(partitions={len(self._errors)}, records_max={self._records_max})"
