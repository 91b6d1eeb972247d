"""Promises of the listener of gRPC about the batches of a Produce, each of which costs more than its bytes."""

from __future__ import annotations

import pytest

from broker.grpc.incoming.request_decoder import RequestDecoder
from penstock.errors import InvalidRequestError
from penstock.messages.client_apis import FURTHER_BATCHES_MAX, PRODUCE
from penstock.pb import broker_pb2 as pb
from penstock.record.builder import build_batch

ONE = build_batch([b""], timestamps_ms=1_700_000_000_000)
DECODER = RequestDecoder(PRODUCE, 100 << 20)


def raw(*records: bytes) -> bytes:
    request = pb.ProduceRequest(correlation_id=1, acks=1)
    for number, part in enumerate(records):
        request.partitions.add(topic="t", partition=number, topic_id="id", records=part)
    return request.SerializeToString()


def test_a_request_has_one_batch_for_each_partition_and_so_many_more_and_one_above_that_is_refused() -> None:
    half = ONE * (FURTHER_BATCHES_MAX // 2 + 1)
    for most in ([ONE * (FURTHER_BATCHES_MAX + 1)], [half, half], [half, ONE, ONE, half]):
        _, request = DECODER.decode(raw(*most))
        assert [bytes(part.records) for part in request.partitions] == most
        refused = DECODER.refused
        with pytest.raises(InvalidRequestError, match=r"more than 2,000 record batches.*put more records into a batch"):
            DECODER.decode(raw(*most, ONE * 2))
        assert DECODER.refused == refused + 1


@pytest.mark.parametrize("junk", [b"", b"j", b"\0" * 5_000, b"\xff" * 5_000, ONE[:-1], ONE + b"left over", ONE[:12]])
def test_bytes_that_are_no_batches_are_left_to_the_append(junk: bytes) -> None:
    _, request = DECODER.decode(raw(junk, ONE))
    assert bytes(request.partitions[0].records) == junk
