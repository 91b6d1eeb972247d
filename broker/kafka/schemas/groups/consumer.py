"""The consumer protocol of groups (KIP-848)."""

from __future__ import annotations

from broker.kafka_codec.fields import array, boolean, int8, int16, int32, nested, string, uuid
from broker.kafka_codec.structs import message, struct


@struct
class ConsumerGroupHeartbeatRequestTopicPartitions:
    topic_id: str = uuid()
    partitions: list[int] = array(int32)


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(null="0+", default=None)
    rack_id: str | None = string(null="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, null="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", null="0+", default=None)
    server_assignor: str | None = string(null="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, null="0+", default=None
    )


@struct
class ConsumerGroupHeartbeatResponseTopicPartitions:
    topic_id: str = uuid()
    partitions: list[int] = array(int32)


@struct
class ConsumerGroupHeartbeatResponseAssignment:
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    member_id: str | None = string(null="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = nested(
        ConsumerGroupHeartbeatResponseAssignment, null="0+", default=None
    )


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class ConsumerGroupDescribeResponseTopicPartitions:
    topic_id: str = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class ConsumerGroupDescribeResponseAssignment:
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = array(
        ConsumerGroupDescribeResponseTopicPartitions
    )


@struct
class ConsumerGroupDescribeResponseMember:
    member_id: str = string()
    instance_id: str | None = string(null="0+", default=None)
    rack_id: str | None = string(null="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(null="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment = nested(ConsumerGroupDescribeResponseAssignment)
    target_assignment: ConsumerGroupDescribeResponseAssignment = nested(ConsumerGroupDescribeResponseAssignment)
    member_type: int = int8("1+", ignorable=True, default=-1)


@struct
class ConsumerGroupDescribeResponseDescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ConsumerGroupDescribeResponseMember] = array(ConsumerGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-0x80000000)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeResponseDescribedGroup] = array(ConsumerGroupDescribeResponseDescribedGroup)
