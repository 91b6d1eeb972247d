"""The records of share groups: fetched and acknowledged."""

from __future__ import annotations

from collections.abc import Sized

from broker.kafka.schemas.shared import NodeEndpoint
from broker.kafka_codec.fields import array, boolean, int8, int16, int32, int64, nested, records_, string, uuid
from broker.kafka_codec.structs import message, struct


@struct
class AcknowledgementBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@struct
class ShareFetchRequestFetchPartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class ShareFetchRequestFetchTopic:
    topic_id: str = uuid()
    partitions: list[ShareFetchRequestFetchPartition] = array(ShareFetchRequestFetchPartition)


@struct
class ShareFetchRequestForgottenTopic:
    topic_id: str = uuid()
    partitions: list[int] = array(int32)


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = string(null="0+", default=None)
    member_id: str | None = string(null="0+", default=None)
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareFetchRequestFetchTopic] = array(ShareFetchRequestFetchTopic)
    forgotten_topics_data: list[ShareFetchRequestForgottenTopic] = array(ShareFetchRequestForgottenTopic)


@struct
class ShareFetchResponseLeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class AcquiredRecords:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@struct
class ShareFetchResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(null="0+", default=None)
    current_leader: ShareFetchResponseLeaderIdAndEpoch = nested(ShareFetchResponseLeaderIdAndEpoch)
    records: Sized = records_()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse:
    topic_id: str = uuid()
    partitions: list[ShareFetchResponsePartitionData] = array(ShareFetchResponsePartitionData)


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


@struct
class AcknowledgePartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class AcknowledgeTopic:
    topic_id: str = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: str | None = string(null="0+", default=None)
    member_id: str | None = string(null="0+", default=None)
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@struct
class ShareAcknowledgeResponseLeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class ShareAcknowledgeResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch = nested(ShareAcknowledgeResponseLeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: str = uuid()
    partitions: list[ShareAcknowledgeResponsePartitionData] = array(ShareAcknowledgeResponsePartitionData)


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
