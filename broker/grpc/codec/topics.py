"""CreateTopics, CreatePartitions and DeleteTopics, between protobuf and values. A broker forwards them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.grpc.codec.error import error_to_pb
from metadata.requests import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
    TopicResult,
)
from penstock.error_message import error_in_message
from penstock.pb import broker_pb2 as pb


def create_topics_from_pb(message: pb.CreateTopicsRequest) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        tuple(
            NewTopic(
                t.name,
                t.partitions,
                t.replication_factor,
                dict(t.config),
                _assignment_from_pb(t.assignment),
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
                assignment=_assignment_to_pb(t.assignment),
            )
            for t in request.topics
        ],
        timeout_ms=timeout_ms,
        validate_only=request.validate_only,
    )


def create_topics_response_to_pb(response: CreateTopicsResponse) -> pb.CreateTopicsResponse:
    return pb.CreateTopicsResponse(
        topics=[_topic_result_to_pb(r) for r in response.topics], metadata_offset=response.metadata_offset
    )


def create_topics_response_from_pb(message: pb.CreateTopicsResponse) -> CreateTopicsResponse:
    return CreateTopicsResponse(tuple(_topic_result_from_pb(r) for r in message.topics), message.metadata_offset)


def create_partitions_from_pb(message: pb.CreatePartitionsRequest) -> CreatePartitionsRequest:
    topics = (NewPartitions(t.name, t.total, _assignment_from_pb(t.assignment), t.topic_id) for t in message.topics)
    return CreatePartitionsRequest(tuple(topics), message.validate_only)


def create_partitions_to_pb(request: CreatePartitionsRequest, timeout_ms: int) -> pb.CreatePartitionsRequest:
    return pb.CreatePartitionsRequest(
        topics=[
            pb.NewPartitions(
                name=t.name, total=t.total, assignment=_assignment_to_pb(t.assignment), topic_id=t.topic_id
            )
            for t in request.topics
        ],
        timeout_ms=timeout_ms,
        validate_only=request.validate_only,
    )


def create_partitions_response_to_pb(response: CreatePartitionsResponse) -> pb.CreatePartitionsResponse:
    return pb.CreatePartitionsResponse(
        topics=[_topic_result_to_pb(r) for r in response.topics], metadata_offset=response.metadata_offset
    )


def create_partitions_response_from_pb(message: pb.CreatePartitionsResponse) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(tuple(_topic_result_from_pb(r) for r in message.topics), message.metadata_offset)


def _assignment_from_pb(assignment: Iterable[pb.ReplicaAssignment]) -> tuple[ReplicaAssignment, ...]:
    return tuple(ReplicaAssignment(a.partition, tuple(a.replicas)) for a in assignment)


def _assignment_to_pb(assignment: Iterable[ReplicaAssignment]) -> list[pb.ReplicaAssignment]:
    return [pb.ReplicaAssignment(partition=a.partition, replicas=a.replicas) for a in assignment]


def delete_topics_from_pb(message: pb.DeleteTopicsRequest) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(tuple(message.topic_ids))


def delete_topics_to_pb(request: DeleteTopicsRequest, timeout_ms: int) -> pb.DeleteTopicsRequest:
    return pb.DeleteTopicsRequest(topic_ids=request.topic_ids, timeout_ms=timeout_ms)


def delete_topics_response_to_pb(response: DeleteTopicsResponse) -> pb.DeleteTopicsResponse:
    return pb.DeleteTopicsResponse(
        topics=[_topic_result_to_pb(r) for r in response.topics], metadata_offset=response.metadata_offset
    )


def delete_topics_response_from_pb(message: pb.DeleteTopicsResponse) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(tuple(_topic_result_from_pb(r) for r in message.topics), message.metadata_offset)


def _topic_result_to_pb(result: TopicResult) -> pb.TopicResult:
    return pb.TopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error=error_to_pb(result.error),
        partitions=result.partitions,
        replication_factor=result.replication_factor,
    )


def _topic_result_from_pb(message: pb.TopicResult) -> TopicResult:
    return TopicResult(
        message.name,
        message.topic_id,
        error_in_message(message.error),
        message.partitions,
        message.replication_factor,
    )
