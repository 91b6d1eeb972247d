"""What is written by hand equals what protobuf writes; errors keep their hint and their bounds."""

from __future__ import annotations

import pytest

from penstock.client.wire import protobuf as wire
from penstock.client.wire.messages import ProduceCall, ProducePart
from penstock.errors import NotLeaderOrFollowerError, OffsetOutOfRangeError, UnknownServerError
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2
from penstock.types import Endpoint, LeaderHint


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_a_produce_request_is_what_protobuf_would_write(size: int) -> None:
    parts = tuple(ProducePart(f"topic-{n}", n, f"id-{n}", bytes(size + n)) for n in (0, 1, 300))
    call = ProduceCall(2**40, -1, 30_000, parts, "client")
    read = pb.ProduceRequest.FromString(wire.encode_produce(call))
    wanted = pb.ProduceRequest(correlation_id=2**40, acks=-1, timeout_ms=30_000, client_id="client")
    for part in parts:
        wanted.partitions.add(topic=part.topic, partition=part.partition, topic_id=part.topic_id, records=part.records)
    assert read == wanted


def test_an_error_keeps_its_hint_and_its_bounds() -> None:
    hint = common_pb2.LeaderHint(leader_id=2, leader_epoch=5, host="b", port=9, topic_id="id")
    moved = wire.decode_error(common_pb2.Error(code=6, message="moved", leader=hint))
    assert isinstance(moved, NotLeaderOrFollowerError) and moved.leader == LeaderHint(2, 5, Endpoint("b", 9), "id")
    ranged = wire.decode_error(common_pb2.Error(code=1, message="x", log_start_offset=3, log_end_offset=8))
    assert isinstance(ranged, OffsetOutOfRangeError) and (ranged.log_start_offset, ranged.log_end_offset) == (3, 8)
    assert wire.decode_error(common_pb2.Error()) is None
    newer = wire.decode_error(common_pb2.Error(code=9_999, message="x", leader=hint, nothing_written=True))
    assert isinstance(newer, UnknownServerError) and "error code 9999" in str(newer)
    assert newer.leader == LeaderHint(2, 5, Endpoint("b", 9), "id") and newer.nothing_written
