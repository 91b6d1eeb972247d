"""Produce: records to the leaders of partitions.

Versions 0 to 2 are here so that their clients get an error in their own terms; no records of theirs are taken.
"""

from __future__ import annotations

from broker.kafka.schemas.shared import NodeEndpoint
from broker.kafka_codec.fields import Bytes, array, int16, int32, int64, nested, records_, string, uuid
from broker.kafka_codec.structs import message, struct


@struct
class PartitionProduceData:
    index: int = int32()
    records: Bytes | None = records_(null="0+")


@struct
class TopicProduceData:
    name: str = string("0-12", ignorable=True)
    topic_id: str = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = string("3+", null="0+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(null="0+", default=None)


@struct
class ProduceResponseLeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", ignorable=True, default=-1)
    log_start_offset: int = int64("5+", ignorable=True, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", null="0+", ignorable=True, default=None)
    current_leader: ProduceResponseLeaderIdAndEpoch = nested(ProduceResponseLeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = string("0-12", ignorable=True)
    topic_id: str = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
