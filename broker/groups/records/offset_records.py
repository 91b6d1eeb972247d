"""The records of committed offsets. A tombstone deletes the offset of one partition."""

from __future__ import annotations

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
