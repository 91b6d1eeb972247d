"""The records of a group of the consumer protocol (KIP-848): the group, its members, their assignments, its patterns.

A member has three records: what it said (metadata), what it shall own (target), what it owns (current). A tombstone of
each deletes the member; of the group's own records, the group.
"""

from __future__ import annotations

from broker.kafka_codec.fields import Bytes, array, bytes_, int8, int32, int64, nested, string, uuid
from broker.kafka_codec.structs import message, struct


@message(versions="0")
class ConsumerGroupMetadataKey:
    group_id: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """`metadata_hash` is that of the subscribed topics' metadata: a new one asks for a new target (KIP-1101)."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@message(versions="0")
class ConsumerGroupPartitionMetadataKey:
    """Written by Kafka before 4.1, which has a hash instead; we only read it, and delete it."""

    group_id: str = string()


@struct
class SubscribedPartitionMetadata:
    partition: int = int32()
    racks: list[str] = array(string)


@struct
class SubscribedTopicMetadata:
    topic_id: str = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[SubscribedPartitionMetadata] = array(SubscribedPartitionMetadata)


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[SubscribedTopicMetadata] = array(SubscribedTopicMetadata)


@message(versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol:
    name: str = string()
    metadata: Bytes = bytes_()


@struct
class ClassicMemberMetadata:
    """A member that still speaks the classic protocol in a consumer group."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(null="0+", default=None)
    rack_id: str | None = string(null="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(null="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(null="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, null="0+", tag=0, default=None
    )


@message(versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


@message(versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TargetTopicPartitions:
    topic_id: str = uuid()
    partitions: list[int] = array(int32)


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)


@message(versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class CurrentTopicPartitions:
    """`assignment_epochs` has, for each partition, the epoch in which the member got it; old records have none."""

    topic_id: str = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, null="0+", tag=0)


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


@message(versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that a pattern stood for, at a version of the metadata and a time."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
