"""What is written by hand equals what protobuf writes."""

from __future__ import annotations

import pytest

from penstock.client.wire import protobuf as wire
from penstock.client.wire.messages import ProduceCall, ProducePart
from penstock.errors import UnknownServerError
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


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (7, 2**15)])
def test_a_producer_id_that_no_batch_can_carry_is_refused(producer_id: int, epoch: int) -> None:
    """It would end the sender in the middle of a request, and its records would never be answered."""
    with pytest.raises(UnknownServerError, match=f"producer id {producer_id} in epoch {epoch}"):
        wire.decode_init_producer_id(pb.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))
    assert wire.decode_init_producer_id(pb.InitProducerIdResponse(producer_id=7, producer_epoch=2**15 - 1)) == (
        7,
        2**15 - 1,
    )
