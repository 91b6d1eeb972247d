"""DeleteRecords, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.requests import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResult
from penstock.pb import broker_pb2 as pb
from penstock.types import TopicPartition


def request_from_pb(message: pb.DeleteRecordsRequest) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        tuple(
            DeleteRecordsPartition(TopicPartition(p.topic, p.partition), p.topic_id, p.before_offset)
            for p in message.partitions
        ),
        message.timeout_ms,
    )


def response_to_pb(results: list[DeleteRecordsResult]) -> pb.DeleteRecordsResponse:
    return pb.DeleteRecordsResponse(
        partitions=[
            pb.DeleteRecordsResult(
                topic=r.partition.topic,
                partition=r.partition.partition,
                error=error_to_pb(r.error),
                low_watermark=r.low_watermark,
            )
            for r in results
        ]
    )
