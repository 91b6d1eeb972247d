"""DescribeMetadata, between protobuf and values."""

from __future__ import annotations

from broker.requests import DescribeMetadataRequest, DescribeMetadataResponse
from penstock.pb import broker_pb2 as pb


def request_from_pb(message: pb.DescribeMetadataRequest) -> DescribeMetadataRequest:
    return DescribeMetadataRequest(message.offset, message.position, message.max_bytes)


def response_to_pb(response: DescribeMetadataResponse) -> pb.DescribeMetadataResponse:
    return pb.DescribeMetadataResponse(
        node_id=response.node_id,
        offset=response.offset,
        epoch=response.epoch,
        records=response.records,
        sha256=response.sha256,
        size_bytes=response.size_bytes,
        lines=response.lines,
    )
