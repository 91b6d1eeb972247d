"""Between protobuf and the values that the APIs know, for the broker's own service. An edge: no decisions here.

One function per message and direction. Record bytes do not go through protobuf (penstock/records_field.py).
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from broker.requests import (
    ClusterView,
    EpochPartition,
    EpochPartitionResult,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResult,
    MetadataResponse,
    NodeView,
    OffsetForLeaderEpochRequest,
    PartitionFetchResult,
    PartitionRecords,
    ProduceRequest,
    ProduceResponse,
    TopicView,
)
from metadata.requests import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    ReplicaAssignment,
    TopicResult,
)
from penstock.errors import ApiError, NetworkError, error_for
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2
from penstock.records_field import RecordsField
from penstock.types import Endpoint, EpochEndOffset, LeaderHint, TopicPartition


def hint_to_pb(hint: LeaderHint) -> common_pb2.LeaderHint:
    message = common_pb2.LeaderHint(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch, topic_id=hint.topic_id)
    if hint.endpoint is not None:
        message.host, message.port = hint.endpoint
    return message


def error_to_pb(error: ApiError) -> common_pb2.Error:
    return common_pb2.Error(
        code=error.code,
        message=error.message,
        leader=hint_to_pb(error.leader) if error.leader is not None else None,
        log_start_offset=error.log_start_offset,
        log_end_offset=error.log_end_offset,
        nothing_written=error.nothing_written and not type(error).nothing_written,
    )


def error_from_pb(message: common_pb2.Error) -> ApiError | None:
    """None for code 0, which is what an absent error reads as."""
    if message.code == 0:
        return None
    leader = None
    if message.HasField("leader"):
        found = message.leader
        endpoint = Endpoint(found.host, found.port) if found.host else None
        leader = LeaderHint(found.leader_id, found.leader_epoch, endpoint, found.topic_id)  # 0 is a good node id
    return error_for(
        message.code,
        message.message,
        leader=leader,
        log_start_offset=message.log_start_offset,
        log_end_offset=message.log_end_offset,
    )


# -- produce -----------------------------------------------------------------------------------------------------------


PRODUCED = RecordsField(pb.ProduceRequest)
FETCHED = RecordsField(pb.FetchResponse)


def produce_from_pb(parsed: tuple[pb.ProduceRequest, list[bytes]]) -> ProduceRequest:
    """Of `PRODUCED.split`."""
    message, all_records = parsed
    return ProduceRequest(
        message.correlation_id,
        message.acks,
        message.timeout_ms,
        [
            PartitionRecords(TopicPartition(p.topic, p.partition), p.topic_id, records)
            for p, records in zip(message.partitions, all_records, strict=True)
        ],
    )


def produce_to_pb(response: ProduceResponse) -> pb.ProduceResponse:
    message = pb.ProduceResponse(correlation_id=response.correlation_id)
    for result in response.partitions:
        message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            error=error_to_pb(result.error) if result.error is not None else None,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    return message


# -- fetch -------------------------------------------------------------------------------------------------------------


def fetch_from_pb(message: pb.FetchRequest) -> FetchRequest:
    return FetchRequest(
        message.correlation_id,
        message.replica_id,
        message.broker_epoch,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        [
            FetchPartition(
                TopicPartition(p.topic, p.partition),
                p.topic_id,
                p.fetch_offset,
                p.current_leader_epoch,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.max_bytes,
            )
            for p in message.partitions
        ],
        [TopicPartition(p.topic, p.partition) for p in message.forgotten],
        message.cluster_id,
    )


def fetch_to_pb(request: FetchRequest) -> pb.FetchRequest:
    return pb.FetchRequest(
        correlation_id=request.correlation_id,
        replica_id=request.replica_id,
        broker_epoch=request.broker_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        cluster_id=request.cluster_id,
        partitions=[
            pb.FetchPartition(
                topic=p.partition.topic,
                partition=p.partition.partition,
                topic_id=p.topic_id,
                fetch_offset=p.fetch_offset,
                current_leader_epoch=p.current_leader_epoch,
                last_fetched_epoch=p.last_fetched_epoch,
                log_start_offset=p.log_start_offset,
                max_bytes=p.max_bytes,
            )
            for p in request.partitions
        ],
        forgotten=[pb.ForgottenPartition(topic=p.topic, partition=p.partition) for p in request.forgotten],
    )


def fetch_response_to_bytes(response: FetchResponse) -> bytes:
    message = pb.FetchResponse(correlation_id=response.correlation_id)
    for result in response.partitions:
        entry = message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            topic_id=result.topic_id,
            error=error_to_pb(result.error) if result.error is not None else None,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            last_stable_offset=result.high_watermark,
            fetch_offset=result.fetch_offset,
        )
        if result.diverging_epoch is not None:
            entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset = result.diverging_epoch
    return FETCHED.join(message, [result.records for result in response.partitions])


def fetch_response_from_bytes(raw: bytes) -> FetchResponse:
    """Raises the error that the answer as a whole is; NetworkError where the bytes are no answer."""
    try:
        message, all_records = FETCHED.split(raw)
    except DecodeError as error:
        raise NetworkError(f"the answer to a fetch is not a message: {error}") from None
    whole: ApiError | None = error_from_pb(message.error) if message.HasField("error") else None
    if whole is not None:
        raise whole
    results = []
    for p, records in zip(message.partitions, all_records, strict=True):
        diverging = None
        if p.HasField("diverging_epoch"):
            diverging = EpochEndOffset(p.diverging_epoch.epoch, p.diverging_epoch.end_offset)
        results.append(
            PartitionFetchResult(
                TopicPartition(p.topic, p.partition),
                p.topic_id,
                p.fetch_offset,
                error_from_pb(p.error) if p.HasField("error") else None,
                p.high_watermark,
                p.log_start_offset,
                records,
                diverging,
            )
        )
    return FetchResponse(message.correlation_id, results)


# -- offsets -----------------------------------------------------------------------------------------------------------


def list_offsets_from_pb(message: pb.ListOffsetsRequest) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        tuple(
            ListOffsetsPartition(
                TopicPartition(p.topic, p.partition), p.topic_id, p.timestamp_ms, p.current_leader_epoch
            )
            for p in message.partitions
        ),
        message.replica_id,
    )


def list_offsets_to_pb(results: list[ListOffsetsResult]) -> pb.ListOffsetsResponse:
    return pb.ListOffsetsResponse(
        partitions=[
            pb.ListOffsetsResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error) if r.error is not None else None,
                offset=r.offset,
                timestamp_ms=r.timestamp_ms,
                leader_epoch=r.leader_epoch,
            )
            for r in results
        ]
    )


def epochs_from_pb(message: pb.OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        tuple(
            EpochPartition(TopicPartition(p.topic, p.partition), p.topic_id, p.leader_epoch, p.current_leader_epoch)
            for p in message.partitions
        ),
        message.replica_id,
    )


def epochs_to_pb(results: list[EpochPartitionResult]) -> pb.OffsetForLeaderEpochResponse:
    return pb.OffsetForLeaderEpochResponse(
        partitions=[
            pb.EpochPartitionResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error) if r.error is not None else None,
                leader_epoch=r.leader_epoch,
                end_offset=r.end_offset,
            )
            for r in results
        ]
    )


# -- administration ----------------------------------------------------------------------------------------------------


def create_topics_from_pb(message: pb.CreateTopicsRequest) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        tuple(
            NewTopic(
                t.name,
                t.partitions,
                t.replication_factor,
                dict(t.config),
                tuple(ReplicaAssignment(a.partition, tuple(a.replicas)) for a in t.assignment),
            )
            for t in message.topics
        ),
        message.validate_only,
    )


def create_topics_to_pb(request: CreateTopicsRequest, timeout_ms: int) -> pb.CreateTopicsRequest:
    return pb.CreateTopicsRequest(
        topics=[
            pb.NewTopic(
                name=t.name,
                partitions=t.partitions,
                replication_factor=t.replication_factor,
                config=dict(t.config),
                assignment=[pb.ReplicaAssignment(partition=a.partition, replicas=a.replicas) for a in t.assignment],
            )
            for t in request.topics
        ],
        timeout_ms=timeout_ms,
        validate_only=request.validate_only,
    )


def _topic_result_to_pb(result: TopicResult) -> pb.TopicResult:
    return pb.TopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error=error_to_pb(result.error) if result.error is not None else None,
        partitions=result.partitions,
        replication_factor=result.replication_factor,
    )


def _topic_result_from_pb(message: pb.TopicResult) -> TopicResult:
    return TopicResult(
        message.name,
        message.topic_id,
        error_from_pb(message.error) if message.HasField("error") else None,
        message.partitions,
        message.replication_factor,
    )


def create_topics_response_to_pb(response: CreateTopicsResponse) -> pb.CreateTopicsResponse:
    return pb.CreateTopicsResponse(
        topics=[_topic_result_to_pb(r) for r in response.topics], metadata_offset=response.metadata_offset
    )


def create_topics_response_from_pb(message: pb.CreateTopicsResponse) -> CreateTopicsResponse:
    return CreateTopicsResponse(tuple(_topic_result_from_pb(r) for r in message.topics), message.metadata_offset)


def delete_topics_from_pb(message: pb.DeleteTopicsRequest) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(tuple(message.topic_ids))


def delete_topics_response_to_pb(response: DeleteTopicsResponse) -> pb.DeleteTopicsResponse:
    return pb.DeleteTopicsResponse(
        topics=[_topic_result_to_pb(r) for r in response.topics], metadata_offset=response.metadata_offset
    )


def delete_topics_response_from_pb(message: pb.DeleteTopicsResponse) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(tuple(_topic_result_from_pb(r) for r in message.topics), message.metadata_offset)


# -- views -------------------------------------------------------------------------------------------------------------


def _node_to_pb(node: NodeView) -> common_pb2.Node:
    return common_pb2.Node(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack, fenced=node.fenced)


def _topic_to_pb(topic: TopicView) -> pb.TopicMetadata:
    return pb.TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id,
        error=error_to_pb(topic.error) if topic.error is not None else None,
        partitions=[
            pb.PartitionMetadata(
                partition=p.partition,
                leader_id=p.leader_id,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                replicas=p.replicas,
                isr=p.isr,
                error=error_to_pb(p.error) if p.error is not None else None,
            )
            for p in topic.partitions
        ],
        config=dict(topic.config),
    )


def metadata_to_pb(response: MetadataResponse) -> pb.MetadataResponse:
    return pb.MetadataResponse(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=[_node_to_pb(node) for node in response.brokers],
        topics=[_topic_to_pb(topic) for topic in response.topics],
        metadata_offset=response.metadata_offset,
    )


def cluster_to_pb(view: ClusterView) -> pb.DescribeClusterResponse:
    return pb.DescribeClusterResponse(
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        brokers=[_node_to_pb(node) for node in view.brokers],
        metadata_offset=view.metadata_offset,
    )
