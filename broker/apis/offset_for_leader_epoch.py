"""OffsetForLeaderEpoch: where a leader epoch ends in this leader's log (KIP-101, KIP-320).

Consumers use it to learn that the log was truncated under them. The answer is bounded by the log end for a replica and
by the high watermark for a consumer, which must never learn of records that may still be lost.
"""

from __future__ import annotations

from broker.network.request_channel import Request
from broker.replication.replica_manager import ReplicaManager
from broker.requests import EpochPartition, EpochPartitionResult, OffsetForLeaderEpochRequest
from penstock.errors import ApiError


class OffsetForLeaderEpochApi:
    """Handles epoch look-ups."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, body: OffsetForLeaderEpochRequest) -> None:
        request.complete([self._one(asked, body.replica_id >= 0) for asked in body.partitions])

    def _one(self, asked: EpochPartition, is_replica: bool) -> EpochPartitionResult:
        try:
            partition = self._replicas.get(asked.partition)
            partition.leader_state(asked.current_leader_epoch)
        except ApiError as error:
            return EpochPartitionResult(asked.partition, error)
        found = partition.log.end_offset_for_epoch(asked.leader_epoch)
        end_offset = found.end_offset if is_replica else min(found.end_offset, partition.high_watermark)
        return EpochPartitionResult(asked.partition, None, found.epoch, end_offset)
