"""Streams groups (KIP-1071)."""

from __future__ import annotations

from broker.kafka.schemas.shared import TopicPartition
from broker.kafka_codec.fields import array, boolean, int8, int16, int32, int64, nested, string, uint16
from broker.kafka_codec.structs import message, struct


@struct
class KeyValue:
    key: str = string()
    value: str = string()


@struct
class TopicInfo:
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


@struct
class CopartitionGroup:
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class StreamsGroupHeartbeatRequestSubtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@struct
class StreamsGroupHeartbeatRequestTopology:
    epoch: int = int32()
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology] = array(StreamsGroupHeartbeatRequestSubtopology)


@struct
class TaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@struct
class StreamsGroupHeartbeatRequestEndpoint:
    host: str = string()
    port: int = uint16()


@struct
class TaskOffset:
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(null="0+", default=None)
    rack_id: str | None = string(null="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatRequestTopology | None = nested(
        StreamsGroupHeartbeatRequestTopology, null="0+", default=None
    )
    active_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    process_id: str | None = string(null="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = nested(
        StreamsGroupHeartbeatRequestEndpoint, null="0+", default=None
    )
    client_tags: list[KeyValue] | None = array(KeyValue, null="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, null="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, null="0+", default=None)
    shutdown_application: bool = boolean()


@struct
class Status:
    status_code: int = int8()
    status_detail: str = string()


@struct
class StreamsGroupHeartbeatResponseEndpoint:
    host: str = string()
    port: int = uint16()


@struct
class EndpointToPartitions:
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = nested(StreamsGroupHeartbeatResponseEndpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[Status] | None = array(Status, null="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, null="0+", default=None)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, null="0+", default=None
    )


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class StreamsGroupDescribeResponseSubtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


@struct
class StreamsGroupDescribeResponseTopology:
    epoch: int = int32()
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = array(
        StreamsGroupDescribeResponseSubtopology, null="0+", default=None
    )


@struct
class StreamsGroupDescribeResponseEndpoint:
    host: str = string()
    port: int = uint16()


@struct
class StreamsGroupDescribeResponseAssignment:
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


@struct
class StreamsGroupDescribeResponseMember:
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(null="0+", default=None)
    rack_id: str | None = string(null="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupDescribeResponseEndpoint | None = nested(
        StreamsGroupDescribeResponseEndpoint, null="0+", default=None
    )
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: StreamsGroupDescribeResponseAssignment = nested(StreamsGroupDescribeResponseAssignment)
    target_assignment: StreamsGroupDescribeResponseAssignment = nested(StreamsGroupDescribeResponseAssignment)
    is_classic: bool = boolean()


@struct
class StreamsGroupDescribeResponseDescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: StreamsGroupDescribeResponseTopology | None = nested(
        StreamsGroupDescribeResponseTopology, null="0+", default=None
    )
    members: list[StreamsGroupDescribeResponseMember] = array(StreamsGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-0x80000000)


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: list[StreamsGroupDescribeResponseDescribedGroup] = array(StreamsGroupDescribeResponseDescribedGroup)
