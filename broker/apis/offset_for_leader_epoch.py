"""OffsetForLeaderEpoch: where a leader epoch ends in this leader's log (KIP-101, KIP-320).

Consumers use it to notice that records which they have read were truncated. The answer is bounded by the log end for a
replica, and by the high watermark for a consumer, because records above it may still be lost.
"""

from __future__ import annotations

from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import in_parts, of_partition
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.unknown_high_watermark import unknown_high_watermark
from broker.replication.partition import Partition
from penstock.base_error import without_frames
from penstock.errors import ApiError
from penstock.messages.client_apis import OFFSET_FOR_LEADER_EPOCH
from penstock.messages.offsets import (
    EpochPartition,
    EpochPartitionResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from penstock.messages.security.acls import Operation
from penstock.types import EpochEndOffset


class OffsetForLeaderEpochApi:
    """Handles epoch look-ups."""

    def __init__(self, partitions: PartitionLookup) -> None:
        self._partitions = partitions

    def handle(self, request: Request, body: OffsetForLeaderEpochRequest) -> None:
        results = [self._one(asked, body.replica_id >= 0) for asked in body.partitions]
        request.complete(OffsetForLeaderEpochResponse(tuple(results)), results)

    def _one(self, asked: EpochPartition, is_replica: bool) -> EpochPartitionResult:
        try:
            found = _end_of_epoch(self._partitions.get(asked.partition, asked.topic_id), asked, is_replica)
        except ApiError as error:
            return EpochPartitionResult(asked.partition, without_frames(error))
        return EpochPartitionResult(asked.partition, None, found.epoch, found.end_offset)


def _end_of_epoch(partition: Partition, asked: EpochPartition, is_replica: bool) -> EpochEndOffset:
    leading = partition.leader_state(asked.current_leader_epoch)
    found, high_watermark = partition.log.end_offset_for_epoch(asked.leader_epoch), partition.high_watermark
    if is_replica or found.end_offset <= high_watermark:
        return found
    if high_watermark < leading.epoch_start_offset:  # an answer bounded by it would look like a truncation (KIP-207)
        raise unknown_high_watermark(partition.topic_partition, high_watermark, leading.epoch_start_offset)
    return EpochEndOffset(found.epoch, high_watermark)


SERVED: Final = (
    Served(
        api=OFFSET_FOR_LEADER_EPOCH,
        rule=in_parts(
            "partitions",
            OffsetForLeaderEpochResponse(),
            of_partition(Operation.DESCRIBE),
            lambda part, error: EpochPartitionResult(part.partition, error),
        ),
        make=lambda parts: OffsetForLeaderEpochApi(parts.hosted).handle,
    ),
)
