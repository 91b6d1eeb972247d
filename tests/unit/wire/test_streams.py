"""The codecs by hand write and read as protobuf does."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRecordError, RecordError
from penstock.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
)
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest, ProduceResponse
from penstock.pb import broker_pb2 as pb
from penstock.types import EpochEndOffset, TopicPartition
from penstock.wire import streams

A, B = TopicPartition("a", 0), TopicPartition("b", 300)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_a_produce_request_is_what_protobuf_would_write(size: int) -> None:
    parts = [PartitionRecords(TopicPartition(f"topic-{n}", n), f"id-{n}", bytes(size + n)) for n in (0, 1, 300)]
    header, request = (
        (2**40, "client"),
        ProduceRequest(-1, 30_000, parts, answer_in_parts=True, transactional_id="mine"),
    )
    raw = streams.produce_request_to_bytes(header, request)
    read = pb.ProduceRequest.FromString(raw)
    wanted = pb.ProduceRequest(
        correlation_id=2**40,
        acks=-1,
        timeout_ms=30_000,
        client_id="client",
        answer_in_parts=True,
        transactional_id="mine",
    )
    for part in parts:
        topic, partition = part.partition
        wanted.partitions.add(topic=topic, partition=partition, topic_id=part.topic_id, records=part.records)
    assert read == wanted
    assert streams.produce_request_from_bytes(raw) == (header, request)


def test_answers_and_fetches_are_read_as_they_were_written() -> None:
    refused = InvalidRecordError("bad")
    refused.record_errors = (RecordError(3, "no key"),)
    results = [PartitionProduceResult(A, None, 7, 8, 2), PartitionProduceResult(B, refused)]
    number, answer = streams.produce_response_from_bytes(
        streams.produce_response_to_bytes(9, ProduceResponse(results, more_follows=True))
    )
    assert number == 9 and answer.more_follows and answer.partitions[0] == results[0]
    error = answer.partitions[1].error
    assert isinstance(error, InvalidRecordError) and error.record_errors == refused.record_errors
    asked = FetchRequest(
        4,
        5,
        6,
        7,
        8,
        [FetchPartition(A, "id", 9, 1, 2, 3, 4)],
        [B],
        "cluster",
        read_committed=True,
        rack_id="a",
        serves_consumers=True,
    )
    header = (2, "me")
    assert streams.fetch_request_from_bytes(streams.fetch_request_to_bytes(header, asked)) == (header, asked)
    found = FetchResponse(
        [
            PartitionFetchResult(
                A, "id", 1, None, 5, 0, b"r" * 70_000, None, 4, [AbortedTransaction(7, 1), AbortedTransaction(8, 2)]
            ),
            PartitionFetchResult(B, "id", 1, diverging_epoch=EpochEndOffset(3, 4)),
            PartitionFetchResult(B, "id", 1, preferred_read_replica=0),
        ]
    )
    assert streams.fetch_response_from_bytes(streams.fetch_response_to_bytes(6, found)) == (6, found)
    whole = streams.fetch_response_from_bytes(streams.fetch_response_to_bytes(6, FetchResponse(error=refused)))[1]
    assert isinstance(whole.error, InvalidRecordError) and whole.partitions == []
