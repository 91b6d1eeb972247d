"""The quorum of the controllers: its state, and changes of its voters (KIP-853)."""

from __future__ import annotations

from broker.kafka_codec.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from broker.kafka_codec.structs import message, struct


@struct
class DescribeQuorumRequestPartitionData:
    partition_index: int = int32()


@struct
class DescribeQuorumRequestTopicData:
    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


@struct
class DescribeQuorumResponseReplicaState:
    replica_id: int = int32()
    replica_directory_id: str = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", ignorable=True, default=-1)
    last_caught_up_timestamp: int = int64("1+", ignorable=True, default=-1)


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", null="0+", ignorable=True, default=None)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[DescribeQuorumResponseReplicaState] = array(DescribeQuorumResponseReplicaState)
    observers: list[DescribeQuorumResponseReplicaState] = array(DescribeQuorumResponseReplicaState)


@struct
class DescribeQuorumResponseTopicData:
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(DescribeQuorumResponsePartitionData)


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class Node:
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = int16()
    error_message: str | None = string("2+", null="0+", ignorable=True, default=None)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, "2+")


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None = string(null="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: str = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", ignorable=True, default=None)


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: str | None = string(null="0+")
    voter_id: int = int32()
    voter_directory_id: str = uuid()


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", ignorable=True, default=None)


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerRequest:
    controller_id: int = int32()


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", ignorable=True, default=None)
