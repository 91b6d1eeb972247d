"""Produce, between protobuf and values. Record bytes do not go through protobuf (penstock/wire/records_field.py)."""

from __future__ import annotations

from penstock.messages.produce import PartitionRecords, ProduceRequest, ProduceResponse
from penstock.pb import broker_pb2 as pb
from penstock.types import TopicPartition
from penstock.wire.error_message import error_to_message
from penstock.wire.records_field import RecordsField

PRODUCED = RecordsField(pb.ProduceRequest)


def request_from_bytes(raw: bytes) -> ProduceRequest:
    """DecodeError for bytes that are no message."""
    return request_from_pb(PRODUCED.split(raw))


def request_from_pb(parsed: tuple[pb.ProduceRequest, list[bytes]]) -> ProduceRequest:
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
        client_id=message.client_id,
        answer_in_parts=message.answer_in_parts,
    )


def response_to_pb(response: ProduceResponse) -> pb.ProduceResponse:
    message = pb.ProduceResponse(correlation_id=response.correlation_id, more_follows=response.more_follows)
    for result in response.partitions:
        told = message.partitions.add(
            topic=result.partition.topic,
            partition=result.partition.partition,
            error=error_to_message(result.error),
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        if result.error is not None:
            for bad in result.error.record_errors:
                told.record_errors.add(batch_index=bad.batch_index, message=bad.message)
    return message
