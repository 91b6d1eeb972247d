"""Our views of topics (`broker/apis/cluster/topic_views.py`) in the terms of Kafka's Metadata.

A partition without a leader that can serve has leader -1 and an error: LEADER_NOT_AVAILABLE, or from version 6 on
LISTENER_NOT_FOUND where the leader has no such listener. Version 0 also has REPLICA_NOT_AVAILABLE, and leaves out the
replicas that are not in service. An invalid name is told apart from an unknown one.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.kafka.errors import code_of
from broker.kafka.schemas.metadata import MetadataResponsePartition, MetadataResponseTopic
from metadata.internal_topics import INTERNAL_TOPICS
from penstock.errors import ApiError, InvalidTopicError, ReplicaNotAvailableError, UnknownTopicOrPartitionError
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.topic_names import validate_topic_name
from penstock.types import NO_LEADER


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def topic_error(topic: TopicInfo) -> ApiError | None:
    """The error of the topic; of an unknown one whose name no topic may have, that."""
    if isinstance(topic.error, UnknownTopicOrPartitionError):
        try:
            validate_topic_name(topic.name)
        except InvalidTopicError as error:
            return error
    return topic.error


def leader_of_view(partition: PartitionInfo) -> int:
    """The leader that clients may go to: none that cannot serve."""
    return partition.leader_id if partition.error is None else NO_LEADER


def topic_struct(topic: TopicInfo, version: int, operations: int, alive: Collection[int]) -> MetadataResponseTopic:
    """The topic in this version; `alive` are the brokers of the answer, for which version 0 asks."""
    made = _in_version_0 if version == 0 else _partition
    return MetadataResponseTopic(
        error_code=code_of(topic_error(topic), "Metadata", version),
        name=topic.name or (None if topic.topic_id and version >= 12 else ""),
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[made(partition, version, alive) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _partition(partition: PartitionInfo, version: int, alive: Collection[int]) -> MetadataResponsePartition:
    error = partition.error
    return MetadataResponsePartition(
        error_code=0 if error is None else code_of(error, "Metadata", version),
        partition_index=partition.partition,
        leader_id=partition.leader_id if error is None else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=list(partition.offline_replicas),
    )


def _in_version_0(partition: PartitionInfo, version: int, alive: Collection[int]) -> MetadataResponsePartition:
    made = _partition(partition, version, alive)
    is_short = not all(broker_id in alive for broker_id in partition.replicas)
    if is_short and not made.error_code:
        made.error_code = ReplicaNotAvailableError.code
    made.replica_nodes = [broker_id for broker_id in made.replica_nodes if broker_id in alive]
    made.isr_nodes = [broker_id for broker_id in made.isr_nodes if broker_id in alive]
    return made
