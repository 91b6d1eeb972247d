"""The records of one transaction: how far they are processed, which of them are left for a later one, and until when.

A record that is to be tried again, or whose time has not come, holds its partition: the records behind it are left,
too, so that each partition stays in order. Other partitions go on. What is left is read again. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(slots=True, eq=False)
class Batch:
    """The records of one transaction, and how far they are processed."""

    records: Sequence[ConsumerRecord]
    began_ns: int
    done: int = 0
    outputs: int = 0
    dead_letters: int = 0
    is_dated: bool = False
    """Some of its outputs have times that no clock here gave them: of the handler, or of a record."""
    is_begun: bool = False
    """The transaction is open."""
    is_committing: bool = False
    """Its commit was asked for, BEFORE the first time."""
    ends: dict[TopicPartition, ConsumerRecord] = field(default_factory=dict)
    """The last record that is done, of each partition that has one."""
    left: dict[TopicPartition, int] = field(default_factory=dict)
    """The first offset that is not done, of each partition that has one."""
    due_ms: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions of which nothing is read before this time."""

    def finish(self, record: ConsumerRecord) -> None:
        """The record is done."""
        self.done += 1
        self.ends[_partition(record)] = record

    def leave(self, record: ConsumerRecord, due_ms: int | None = None) -> None:
        """The record, and all behind it in its partition, are not processed now."""
        partition = _partition(record)
        self.left.setdefault(partition, record.offset)
        if due_ms is not None:
            self.due_ms[partition] = due_ms

    def has_left(self, record: ConsumerRecord) -> bool:
        """True if one before it in its partition is left."""
        return bool(self.left) and _partition(record) in self.left

    def first(self) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        found: dict[TopicPartition, int] = {}
        for record in self.records:
            found.setdefault(_partition(record), record.offset)
        return found


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
