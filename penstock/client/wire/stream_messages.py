"""Produce and Fetch between the client's calls and protobuf: the only messages of the client with record bytes.

Written by hand, because record bytes pass by protobuf (records_field.py). All others have message_codec.py.
"""

from __future__ import annotations

from penstock.client.wire.messages import FetchAnswer, FetchCall, FetchResult, ProduceAnswer, ProduceCall, ProduceResult
from penstock.errors import ApiError, RecordError
from penstock.pb import broker_pb2 as pb
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_OFFSET, EpochEndOffset
from penstock.wire.error_message import error_in_message
from penstock.wire.records_field import RecordsField

_PRODUCED = RecordsField(pb.ProduceRequest)
_FETCHED = RecordsField(pb.FetchResponse)


def encode_produce(call: ProduceCall) -> bytes:
    """A ProduceRequest's bytes."""
    request = pb.ProduceRequest(
        correlation_id=call.correlation_id,
        acks=call.acks,
        timeout_ms=call.timeout_ms,
        client_id=call.client_id,
        answer_in_parts=call.acks != 0,
    )
    for part in call.parts:
        request.partitions.add(topic=part.topic, partition=part.partition, topic_id=part.topic_id)
    return _PRODUCED.join(request, [part.records for part in call.parts])


def decode_produce(response: pb.ProduceResponse) -> ProduceAnswer:
    results = tuple(
        ProduceResult(r.topic, r.partition, _produce_error(r), r.base_offset, r.log_append_time_ms)
        for r in response.partitions
    )
    error = error_in_message(response.error)
    return ProduceAnswer(response.correlation_id, results, error, response.more_follows)


def _produce_error(result: pb.PartitionProduceResult) -> ApiError | None:
    error = error_in_message(result.error)
    if error is not None and result.record_errors:
        error.record_errors = tuple(RecordError(bad.batch_index, bad.message) for bad in result.record_errors)
    return error


def encode_fetch(call: FetchCall) -> pb.FetchRequest:
    request = pb.FetchRequest(
        correlation_id=call.correlation_id,
        replica_id=CONSUMER_REPLICA_ID,
        broker_epoch=NO_EPOCH,
        max_wait_ms=call.max_wait_ms,
        min_bytes=call.min_bytes,
        max_bytes=call.max_bytes,
        client_id=call.client_id,
    )
    for part in call.changed:
        request.partitions.add(
            topic=part.topic,
            partition=part.partition,
            topic_id=part.topic_id,
            fetch_offset=part.fetch_offset,
            current_leader_epoch=part.current_leader_epoch,
            last_fetched_epoch=part.last_fetched_epoch,
            log_start_offset=NO_OFFSET,
            max_bytes=part.max_bytes,
        )
    for topic, partition in call.forgotten:
        request.forgotten.add(topic=topic, partition=partition)
    return request


def decode_fetch(raw: bytes) -> FetchAnswer:
    """A FetchResponse; DecodeError where the bytes are none."""
    response, all_records = _FETCHED.split(raw)
    results = tuple(
        FetchResult(
            r.topic,
            r.partition,
            r.topic_id,
            error_in_message(r.error),
            r.high_watermark,
            r.log_start_offset,
            records,
            EpochEndOffset(r.diverging_epoch.epoch, r.diverging_epoch.end_offset)
            if r.HasField("diverging_epoch")
            else None,
            r.fetch_offset,
        )
        for r, records in zip(response.partitions, all_records, strict=True)
    )
    return FetchAnswer(response.correlation_id, results, error_in_message(response.error))
