"""DescribeMetadata, between protobuf and values: a part of the metadata as one broker's files have it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.pb import broker_pb2 as pb

NEWEST_OFFSET = -1


@dataclass(frozen=True, slots=True)
class MetadataPage:
    """`lines` are those from the byte asked for; number, digest and size are of all lines."""

    node_id: int
    offset: int
    epoch: int
    records: int
    sha256: str
    size_bytes: int
    lines: bytes


def encode_describe_metadata(offset: int, position: int, max_bytes: int) -> pb.DescribeMetadataRequest:
    return pb.DescribeMetadataRequest(offset=offset, position=position, max_bytes=max_bytes)


def decode_describe_metadata(response: pb.DescribeMetadataResponse) -> MetadataPage:
    return MetadataPage(
        response.node_id,
        response.offset,
        response.epoch,
        response.records,
        response.sha256,
        response.size_bytes,
        response.lines,
    )
