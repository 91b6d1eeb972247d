"""ListOffsets, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResult
from penstock.pb import broker_pb2 as pb
from penstock.types import TopicPartition


def request_from_pb(message: pb.ListOffsetsRequest) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        tuple(
            ListOffsetsPartition(
                TopicPartition(p.topic, p.partition), p.topic_id, p.timestamp_ms, p.current_leader_epoch
            )
            for p in message.partitions
        ),
        message.replica_id,
        message.timeout_ms,
    )


def response_to_pb(results: list[ListOffsetsResult]) -> pb.ListOffsetsResponse:
    return pb.ListOffsetsResponse(
        partitions=[
            pb.ListOffsetsResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error),
                offset=r.offset,
                timestamp_ms=r.timestamp_ms,
                leader_epoch=r.leader_epoch,
            )
            for r in results
        ]
    )
