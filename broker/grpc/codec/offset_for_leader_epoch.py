"""OffsetForLeaderEpoch, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import EpochPartition, EpochPartitionResult, OffsetForLeaderEpochRequest
from penstock.pb import broker_pb2 as pb
from penstock.types import TopicPartition


def request_from_pb(message: pb.OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        tuple(
            EpochPartition(TopicPartition(p.topic, p.partition), p.topic_id, p.leader_epoch, p.current_leader_epoch)
            for p in message.partitions
        ),
        message.replica_id,
    )


def response_to_pb(results: list[EpochPartitionResult]) -> pb.OffsetForLeaderEpochResponse:
    return pb.OffsetForLeaderEpochResponse(
        partitions=[
            pb.EpochPartitionResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error),
                leader_epoch=r.leader_epoch,
                end_offset=r.end_offset,
            )
            for r in results
        ]
    )
