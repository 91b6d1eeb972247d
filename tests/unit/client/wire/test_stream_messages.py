"""Messages that are written by hand equal those that protobuf writes."""

from __future__ import annotations

import pytest

from penstock.client.wire import stream_messages as wire
from penstock.client.wire.messages import ProduceCall, ProducePart
from penstock.pb import broker_pb2 as pb


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_a_produce_request_is_what_protobuf_would_write(size: int) -> None:
    parts = tuple(ProducePart(f"topic-{n}", n, f"id-{n}", bytes(size + n)) for n in (0, 1, 300))
    call = ProduceCall(2**40, -1, 30_000, parts, "client")
    read = pb.ProduceRequest.FromString(wire.encode_produce(call))
    wanted = pb.ProduceRequest(
        correlation_id=2**40, acks=-1, timeout_ms=30_000, client_id="client", answer_in_parts=True
    )
    for part in parts:
        wanted.partitions.add(topic=part.topic, partition=part.partition, topic_id=part.topic_id, records=part.records)
    assert read == wanted
