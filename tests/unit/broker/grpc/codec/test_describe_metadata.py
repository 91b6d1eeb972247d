"""What a client asks for is what the node reads, and what the node answers is what the client reads."""

from __future__ import annotations

import dataclasses

from broker.grpc.codec.describe_metadata import request_from_pb, response_to_pb
from broker.requests import DescribeMetadataRequest, DescribeMetadataResponse
from penstock.client.wire.metadata_page import MetadataPage, decode_describe_metadata, encode_describe_metadata
from penstock.pb import broker_pb2 as pb


def test_a_request_keeps_its_numbers() -> None:
    for asked in ((-1, 0, 0), (0, 0, 1), (1 << 60, 1 << 40, 1 << 20)):
        wire = encode_describe_metadata(*asked).SerializeToString()
        assert request_from_pb(pb.DescribeMetadataRequest.FromString(wire)) == DescribeMetadataRequest(*asked)


def test_an_answer_keeps_its_values() -> None:
    told = DescribeMetadataResponse(2, 1 << 50, 3, 4, "abc", 5, b"{}\n")
    wire = response_to_pb(told).SerializeToString()
    found = decode_describe_metadata(pb.DescribeMetadataResponse.FromString(wire))
    assert found == MetadataPage(*dataclasses.astuple(told))
