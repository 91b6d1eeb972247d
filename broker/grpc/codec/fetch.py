"""Fetch, between protobuf and values: for clients, and between brokers.

Record bytes do not go through protobuf (penstock/wire/records_field.py).
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from penstock.errors import NetworkError
from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionFetchResult
from penstock.pb import broker_pb2 as pb
from penstock.types import EpochEndOffset, TopicPartition
from penstock.wire.error_message import error_in_message, error_to_message
from penstock.wire.records_field import RecordsField

FETCHED = RecordsField(pb.FetchResponse)


def request_from_bytes(raw: bytes) -> FetchRequest:
    """DecodeError for bytes that are no message."""
    return request_from_pb(pb.FetchRequest.FromString(raw))


def request_from_pb(message: pb.FetchRequest) -> FetchRequest:
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
        message.client_id,
    )


def request_to_pb(request: FetchRequest) -> pb.FetchRequest:
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


def response_to_bytes(response: FetchResponse) -> bytes:
    message = pb.FetchResponse(correlation_id=response.correlation_id)
    for result in response.partitions:
        entry = message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            topic_id=result.topic_id,
            error=error_to_message(result.error),
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            last_stable_offset=result.high_watermark,
            fetch_offset=result.fetch_offset,
        )
        if result.diverging_epoch is not None:
            entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset = result.diverging_epoch
    return FETCHED.join(message, [result.records for result in response.partitions])


def response_from_bytes(raw: bytes) -> FetchResponse:
    """Raises the error that the answer as a whole is; NetworkError where the bytes are no answer."""
    try:
        message, all_records = FETCHED.split(raw)
    except DecodeError as error:
        raise NetworkError(f"the answer to a fetch is not a message: {error}") from None
    whole = error_in_message(message.error)
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
                error_in_message(p.error),
                p.high_watermark,
                p.log_start_offset,
                records,
                diverging,
            )
        )
    return FetchResponse(message.correlation_id, results)
