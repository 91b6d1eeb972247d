"""The records of committed offsets. A tombstone deletes the offset of one partition.

`OffsetRun` is no record: it has the fields of many, as a load takes them over.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.kafka_codec.fields import int32, int64, string, uuid
from broker.kafka_codec.structs import message


@message(versions="0")
class LegacyOffsetCommitKey:
    """Written by Kafka before 0.9; only read."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions="0")
class LegacyOffsetCommitValue:
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


@message(versions="0")
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """`expire_timestamp` is that of a client that told its own retention (OffsetCommit before version 5)."""

    offset: int = int64()
    leader_epoch: int = int32("3+", ignorable=True, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", ignorable=True, default=-1)
    topic_id: str = uuid("4+", tag=0, ignorable=True)


OFFSET_ENTRY: Final = struct.Struct(">qixq")
"""Offset, leader epoch and commit time, as a record without a text has them."""


class OffsetRunKey(NamedTuple):
    group: str
    topic: str


class OffsetRun(NamedTuple):
    """Offsets of one group in one topic, none with a text or a time of expiry."""

    topic_id: str
    partitions: array[int]
    """int32 each, ascending."""
    entries: bytes
    """OFFSET_ENTRY each."""

    def items(self) -> Iterator[tuple[int, OffsetCommitValue]]:
        """The offsets by partition, as records have them."""
        for partition, (offset, epoch, time_ms) in zip(
            self.partitions, OFFSET_ENTRY.iter_unpack(self.entries), strict=True
        ):
            yield (
                partition,
                OffsetCommitValue(offset=offset, leader_epoch=epoch, commit_timestamp=time_ms, topic_id=self.topic_id),
            )
