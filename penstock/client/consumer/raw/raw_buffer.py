"""A raw range, and a piece of one. Apart from raw_fetch.py, so that Spark's workers can import it without gRPC."""

from __future__ import annotations

from typing import NamedTuple

from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition


class RawBuffer(NamedTuple):
    """Whole batches that hold the records from `from_offset` to before `next_offset`.

    They may begin below and end above, where the cleaner has stretched a batch: decode exactly from `from_offset`.
    """

    records: bytes
    from_offset: int
    next_offset: int


class RawRange(NamedTuple):
    """The range to read: the offsets from one to before another, of the topic with this id (empty: of today's).

    `leader_epoch` is the one in which the end was seen: a record below the end that is of a later epoch has replaced
    another one. No answer counts that is older than it, or than the metadata in `seen`.
    """

    topic_partition: TopicPartition
    from_offset: int
    to_offset: int
    topic_id: str = ""
    leader_epoch: int = NO_EPOCH
    seen: MetadataOffset = NOTHING_SEEN
