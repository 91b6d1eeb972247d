"""Fetch: records from partitions, within a session (KIP-227) or without."""

from __future__ import annotations

from collections.abc import Sized

from broker.kafka.schemas.shared import NodeEndpoint
from broker.kafka_codec.fields import array, int8, int16, int32, int64, nested, records_, string, uuid
from broker.kafka_codec.structs import message, struct


@struct
class FetchRequestReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@struct
class FetchRequestFetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32("9+", ignorable=True, default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", ignorable=True, default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: str = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", tag=1, ignorable=True, default=0x7FFFFFFFFFFFFFFF)


@struct
class FetchRequestFetchTopic:
    topic: str = string("0-12", ignorable=True)
    topic_id: str = uuid("13+", ignorable=True)
    partitions: list[FetchRequestFetchPartition] = array(FetchRequestFetchPartition)


@struct
class FetchRequestForgottenTopic:
    topic: str = string("7-12", ignorable=True)
    topic_id: str = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32)


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = string("12+", null="0+", tag=0, ignorable=True, default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: FetchRequestReplicaState = nested(FetchRequestReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(ignorable=True, default=0x7FFFFFFF)
    isolation_level: int = int8(ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", ignorable=True, default=-1)
    topics: list[FetchRequestFetchTopic] = array(FetchRequestFetchTopic)
    forgotten_topics_data: list[FetchRequestForgottenTopic] = array(FetchRequestForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


@struct
class FetchResponseEpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@struct
class FetchResponseLeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@struct
class FetchResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(ignorable=True, default=-1)
    log_start_offset: int = int64("5+", ignorable=True, default=-1)
    diverging_epoch: FetchResponseEpochEndOffset = nested(FetchResponseEpochEndOffset, "12+", tag=0)
    current_leader: FetchResponseLeaderIdAndEpoch = nested(FetchResponseLeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, null="0+", ignorable=True)
    preferred_read_replica: int = int32("11+", default=-1)
    records: Sized | None = records_(null="0+")


@struct
class FetchableTopicResponse:
    topic: str = string("0-12", ignorable=True)
    topic_id: str = uuid("13+", ignorable=True)
    partitions: list[FetchResponsePartitionData] = array(FetchResponsePartitionData)


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
