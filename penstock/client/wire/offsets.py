"""ListOffsets and OffsetForLeaderEpoch, between protobuf and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.error_message import error_in_message
from penstock.errors import ApiError
from penstock.pb import broker_pb2 as pb
from penstock.types import CONSUMER_REPLICA_ID, EpochEndOffset


class ListOffsetsPart(NamedTuple):
    """One question of ListOffsets: the offset at a time, or at one of the sentinels of penstock.types."""

    topic: str
    partition: int
    topic_id: str
    current_leader_epoch: int
    timestamp_ms: int


class ListOffsetsResult(NamedTuple):
    """The answer for one partition; offset -1 when no record is that late."""

    topic: str
    partition: int
    error: ApiError | None
    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochPart(NamedTuple):
    """One question of OffsetForLeaderEpoch: where this leader epoch ends in the leader's log."""

    topic: str
    partition: int
    topic_id: str
    current_leader_epoch: int
    leader_epoch: int


class EpochResult(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ApiError | None
    end: EpochEndOffset


def encode_list_offsets(parts: Iterable[ListOffsetsPart], timeout_ms: int) -> pb.ListOffsetsRequest:
    request = pb.ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, timeout_ms=timeout_ms)
    for part in parts:
        request.partitions.add(
            topic=part.topic,
            partition=part.partition,
            topic_id=part.topic_id,
            current_leader_epoch=part.current_leader_epoch,
            timestamp_ms=part.timestamp_ms,
        )
    return request


def decode_list_offsets(response: pb.ListOffsetsResponse) -> tuple[ListOffsetsResult, ...]:
    return tuple(
        ListOffsetsResult(r.topic, r.partition, error_in_message(r.error), r.offset, r.timestamp_ms, r.leader_epoch)
        for r in response.partitions
    )


def encode_epochs(parts: Iterable[EpochPart]) -> pb.OffsetForLeaderEpochRequest:
    request = pb.OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID)
    for part in parts:
        request.partitions.add(
            topic=part.topic,
            partition=part.partition,
            topic_id=part.topic_id,
            current_leader_epoch=part.current_leader_epoch,
            leader_epoch=part.leader_epoch,
        )
    return request


def decode_epochs(response: pb.OffsetForLeaderEpochResponse) -> tuple[EpochResult, ...]:
    return tuple(
        EpochResult(r.topic, r.partition, error_in_message(r.error), EpochEndOffset(r.leader_epoch, r.end_offset))
        for r in response.partitions
    )
