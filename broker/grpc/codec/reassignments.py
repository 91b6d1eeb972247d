"""AlterPartitionReassignments, between protobuf and values. A broker forwards it to the controller."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from metadata.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignedPartition,
    ReassignmentResult,
)
from penstock.error_message import error_in_message
from penstock.pb import reassignments_pb2 as pb


def request_from_pb(message: pb.AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        tuple(
            ReassignedPartition(p.topic, p.partition, None if p.cancel else tuple(p.replicas))
            for p in message.partitions
        )
    )


def request_to_pb(
    request: AlterPartitionReassignmentsRequest, timeout_ms: int
) -> pb.AlterPartitionReassignmentsRequest:
    return pb.AlterPartitionReassignmentsRequest(
        partitions=[
            pb.ReassignedPartition(
                topic=p.topic, partition=p.partition, replicas=p.replicas or (), cancel=p.replicas is None
            )
            for p in request.partitions
        ],
        timeout_ms=timeout_ms,
    )


def response_to_pb(
    response: AlterPartitionReassignmentsResponse,
) -> pb.AlterPartitionReassignmentsResponse:
    return pb.AlterPartitionReassignmentsResponse(
        partitions=[
            pb.ReassignmentResult(topic=r.topic, partition=r.partition, error=error_to_pb(r.error))
            for r in response.partitions
        ],
        metadata_offset=response.metadata_offset,
    )


def response_from_pb(
    message: pb.AlterPartitionReassignmentsResponse,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        tuple(ReassignmentResult(r.topic, r.partition, error_in_message(r.error)) for r in message.partitions),
        message.metadata_offset,
    )
