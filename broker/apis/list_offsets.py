"""ListOffsets: the earliest and latest readable offset, the largest timestamp, or the first record at or after a time.

'Latest' is the high watermark: what a consumer can read. A leader that has not committed in its own epoch yet does not
know it for sure, and says so (KIP-207).
"""

from __future__ import annotations

from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.partition import Partition
from broker.requests import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResult
from penstock.errors import (
    ApiError,
    CorruptFileError,
    InvalidRequestError,
    KafkaStorageError,
    OffsetNotAvailableError,
    without_frames,
)
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TimestampAndOffset


class ListOffsetsApi:
    """Handles list-offsets requests."""

    def __init__(self, partitions: PartitionLookup) -> None:
        self._partitions = partitions

    def handle(self, request: Request, body: ListOffsetsRequest) -> None:
        results = [self._one(asked) for asked in body.partitions]
        request.complete(results, results)

    def _one(self, asked: ListOffsetsPartition) -> ListOffsetsResult:
        try:
            found = _look_up(self._partitions.get(asked.partition, asked.topic_id), asked)
        except ApiError as error:
            return ListOffsetsResult(asked.partition, without_frames(error))
        if found is None:
            return ListOffsetsResult(asked.partition)
        return ListOffsetsResult(asked.partition, None, found.offset, found.timestamp_ms, found.leader_epoch)


def _look_up(partition: Partition, asked: ListOffsetsPartition) -> TimestampAndOffset | None:
    """A look-up by time reads the log: what is wrong with the disk there is the partition's trouble, as in a read."""
    try:
        return _find(partition, asked)
    except (OSError, CorruptFileError, KafkaStorageError) as error:
        partition.reports.disk_error(partition, error)
        raise KafkaStorageError(f"{partition.topic_partition}: reading failed: {error}") from error


def _find(partition: Partition, asked: ListOffsetsPartition) -> TimestampAndOffset | None:
    leading = partition.leader_state(asked.current_leader_epoch)
    log = partition.log
    if asked.timestamp_ms == EARLIEST_TIMESTAMP:
        return TimestampAndOffset(-1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset))
    if partition.high_watermark < leading.epoch_start_offset:
        raise OffsetNotAvailableError(
            f"{partition.topic_partition}: the new leader knows the high watermark only from "
            f"{leading.epoch_start_offset} on; it stands at {partition.high_watermark}"
        )
    if asked.timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(-1, partition.high_watermark, partition.state.leader_epoch)
    if asked.timestamp_ms == MAX_TIMESTAMP:
        return log.max_timestamp(below=partition.high_watermark)
    if asked.timestamp_ms < 0:
        raise InvalidRequestError(f"timestamp_ms {asked.timestamp_ms} is neither a time nor -1, -2 or -3")
    found = log.offset_for_timestamp(asked.timestamp_ms)
    return found if found is not None and found.offset < partition.high_watermark else None
