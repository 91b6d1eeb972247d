"""Produce and Fetch between records and protobuf, for clients and nodes. An edge.

Written by hand, because record bytes pass by protobuf (records_field.py), and because a request brings the number and
the client's name that its envelope has. The number comes back with the answer. All other messages have
message_codec.py.
"""

from __future__ import annotations

from penstock.errors import ApiError, RecordError
from penstock.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
)
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest, ProduceResponse
from penstock.pb import broker_pb2 as pb
from penstock.types import NO_LEADER, EpochEndOffset, TopicPartition
from penstock.wire.error_message import error_in_message, error_to_message
from penstock.wire.records_field import RecordsField

PRODUCED = RecordsField(pb.ProduceRequest)
FETCHED = RecordsField(pb.FetchResponse)


Header = tuple[int, str]
"""The part of a request's message that belongs to its envelope: its number, and the client's name or "". Plain, because
each request has one."""


def produce_request_to_bytes(header: Header, request: ProduceRequest) -> bytes:
    correlation_id, client_id = header
    message = pb.ProduceRequest(
        correlation_id=correlation_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        client_id=client_id,
        answer_in_parts=request.answer_in_parts,
        transactional_id=request.transactional_id,
    )
    for (topic, partition), topic_id, _ in request.partitions:
        message.partitions.add(topic=topic, partition=partition, topic_id=topic_id)
    return PRODUCED.join(message, [part.records for part in request.partitions])


def produce_request_from_bytes(raw: bytes) -> tuple[Header, ProduceRequest]:
    """The request in the bytes of one message; DecodeError for bytes that are no message."""
    message, all_records = PRODUCED.split(raw)
    request = ProduceRequest(
        message.acks,
        message.timeout_ms,
        [
            PartitionRecords(TopicPartition(p.topic, p.partition), p.topic_id, records)
            for p, records in zip(message.partitions, all_records, strict=True)
        ],
        message.answer_in_parts,
        message.transactional_id,
    )
    return (message.correlation_id, message.client_id), request


def produce_response_to_bytes(correlation_id: int, response: ProduceResponse) -> bytes:
    message = pb.ProduceResponse(
        correlation_id=correlation_id,
        error=error_to_message(response.error),
        more_follows=response.more_follows,
        throttle_time_ms=response.throttle_time_ms,
    )
    for result in response.partitions:
        row = message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            error=error_to_message(result.error),
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        if result.error is not None:
            for bad in result.error.record_errors:
                row.record_errors.add(batch_index=bad.batch_index, message=bad.message)
    return message.SerializeToString()


def produce_response_from_bytes(raw: bytes) -> tuple[int, ProduceResponse]:
    """The number of the request, and its answer; DecodeError for bytes that are no message."""
    message = pb.ProduceResponse.FromString(raw)
    results = [
        PartitionProduceResult(
            TopicPartition(r.topic, r.partition),
            _produce_error(r),
            r.base_offset,
            r.log_append_time_ms,
            r.log_start_offset,
        )
        for r in message.partitions
    ]
    throttle_time_ms = message.throttle_time_ms
    return message.correlation_id, ProduceResponse(
        results, message.more_follows, error_in_message(message.error), throttle_time_ms=throttle_time_ms
    )


def _produce_error(result: pb.PartitionProduceResult) -> ApiError | None:
    error = error_in_message(result.error)
    if error is not None and result.record_errors:
        error.record_errors = tuple(RecordError(bad.batch_index, bad.message) for bad in result.record_errors)
    return error


def fetch_request_to_bytes(header: Header, request: FetchRequest) -> bytes:
    correlation_id, client_id = header
    message = pb.FetchRequest(
        correlation_id=correlation_id,
        replica_id=request.replica_id,
        broker_epoch=request.broker_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        client_id=client_id,
        cluster_id=request.cluster_id,
        read_committed=request.read_committed,
        rack_id=request.rack_id,
        serves_consumers=request.serves_consumers,
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
        forgotten=[pb.ForgottenPartition(topic=topic, partition=partition) for topic, partition in request.forgotten],
    )
    return message.SerializeToString()


def fetch_request_from_bytes(raw: bytes) -> tuple[Header, FetchRequest]:
    """The request in the bytes of one message; DecodeError for bytes that are no message."""
    message = pb.FetchRequest.FromString(raw)
    request = FetchRequest(
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
        read_committed=message.read_committed,
        rack_id=message.rack_id,
        serves_consumers=message.serves_consumers,
    )
    return (message.correlation_id, message.client_id), request


def fetch_response_to_bytes(correlation_id: int, response: FetchResponse) -> bytes:
    message = pb.FetchResponse(
        correlation_id=correlation_id,
        error=error_to_message(response.error),
        throttle_time_ms=response.throttle_time_ms,
    )
    for result in response.partitions:
        entry = message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            topic_id=result.topic_id,
            error=error_to_message(result.error),
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            last_stable_offset=result.last_stable_offset,
            fetch_offset=result.fetch_offset,
        )
        for producer_id, first_offset in result.aborted:
            entry.aborted.add(producer_id=producer_id, first_offset=first_offset)
        if result.preferred_read_replica != NO_LEADER:
            entry.preferred_read_replica = result.preferred_read_replica
        if result.diverging_epoch is not None:
            entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset = result.diverging_epoch
    return FETCHED.join(message, [result.records for result in response.partitions])


def fetch_response_from_bytes(raw: bytes) -> tuple[int, FetchResponse]:
    """The number of the request, and its answer; DecodeError for bytes that are no message."""
    message, all_records = FETCHED.split(raw)
    results = [
        PartitionFetchResult(
            TopicPartition(p.topic, p.partition),
            p.topic_id,
            p.fetch_offset,
            error_in_message(p.error),
            p.high_watermark,
            p.log_start_offset,
            records,
            EpochEndOffset(p.diverging_epoch.epoch, p.diverging_epoch.end_offset)
            if p.HasField("diverging_epoch")
            else None,
            p.last_stable_offset,
            [AbortedTransaction(one.producer_id, one.first_offset) for one in p.aborted] if p.aborted else (),
            p.preferred_read_replica if p.HasField("preferred_read_replica") else NO_LEADER,
        )
        for p, records in zip(message.partitions, all_records, strict=True)
    ]
    return message.correlation_id, FetchResponse(results, error_in_message(message.error), message.throttle_time_ms)
