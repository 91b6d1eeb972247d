"""ListOffsets: the earliest and latest readable offset, the largest timestamp, or the first record at or after a time.

'Latest' is the high watermark, the end of what a consumer can read. A leader that has committed no record of its own
epoch yet does not know it for sure, and answers OFFSET_NOT_AVAILABLE (KIP-207).

A look-up by time that needs the disk runs in an I/O thread; the look-ups of one request run one after another. When two
thirds of the request's time-out have passed, it is answered with what was found: a partition that needs the disk then
is REQUEST_TIMED_OUT, so a disk that hangs keeps no other partition's offset from the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.network.failed_requests import FailRequest
from broker.network.io_threads import IoPort, IoWork
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.unknown_high_watermark import unknown_high_watermark
from broker.replication.partition import Partition
from broker.requests import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResult
from penstock.errors import (
    ApiError,
    CorruptFileError,
    InvalidRequestError,
    KafkaStorageError,
    RequestTimedOutError,
    ResourceExhaustedError,
    without_frames,
)
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TimestampAndOffset
from storage.log.log_reader import ColdLookUp
from storage.segment.timestamp_lookup import TimeLookUp

TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX = 3_000, 60_000
"""Of a request that gives none, and the most that counts."""


class _Answering:
    """A request, and its results so far."""

    __slots__ = ("disk_wait_ms", "is_late", "request", "results", "timer", "wanted")

    def __init__(self, request: Request, wanted: Sequence[ListOffsetsPartition], timeout_ms: int) -> None:
        self.request, self.wanted = request, wanted
        self.disk_wait_ms = min(timeout_ms if timeout_ms > 0 else TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX) * 2 // 3
        self.results: list[ListOffsetsResult] = []
        self.timer: asyncio.TimerHandle | None = None
        self.is_late = False
        """No disk is asked any more."""


class ListOffsetsApi:
    """Handles list-offsets requests."""

    def __init__(self, partitions: PartitionLookup, io: IoPort, fail: FailRequest) -> None:
        self._partitions, self._io, self._fail = partitions, io, fail

    def handle(self, request: Request, body: ListOffsetsRequest) -> None:
        self._go_on(_Answering(request, body.partitions, body.timeout_ms), None)

    def _go_on(self, answering: _Answering, cold: ColdLookUp | None) -> None:
        """Until the next look-up in a thread; `cold` is the one that has run."""
        results = answering.results
        while len(results) < len(answering.wanted):
            asked = answering.wanted[len(results)]
            found = self._one(asked, cold, answering)
            cold = None
            if found is None:
                return
            results.append(found)
        if answering.timer is not None:
            answering.timer.cancel()
        answering.request.complete(results, results)

    def _one(
        self, asked: ListOffsetsPartition, cold: ColdLookUp | None, answering: _Answering
    ) -> ListOffsetsResult | None:
        """None while a thread is at work."""
        try:
            partition = self._partitions.get(asked.partition, asked.topic_id)
            found = _look_up(partition, asked, cold)
            if isinstance(found, ColdLookUp):
                self._begin(partition.log.log_dir, found, answering)
                return None
        except ApiError as error:
            return ListOffsetsResult(asked.partition, without_frames(error))
        if found is None:
            return ListOffsetsResult(asked.partition)
        return ListOffsetsResult(asked.partition, None, found.offset, found.timestamp_ms, found.leader_epoch)

    def _begin(self, log_dir: str, cold: ColdLookUp, answering: _Answering) -> None:
        if answering.is_late:
            cold.discard()
            why = f"the disks have not answered within {answering.disk_wait_ms} ms, the last one that of {log_dir}"
            raise RequestTimedOutError(f"{why}; try again")
        if not self._io.submit(log_dir, IoWork.LOOK_UP, cold.run, lambda: self._found(answering, cold)):
            cold.discard()
            raise ResourceExhaustedError(f"too many reads wait for the disk of {log_dir}; try again later")
        if answering.timer is None:
            answering.timer = asyncio.get_running_loop().call_later(
                answering.disk_wait_ms / 1000, self._time_up, answering
            )

    def _found(self, answering: _Answering, cold: ColdLookUp) -> None:
        if not answering.is_late:
            self._went_on(answering, cold)

    def _time_up(self, answering: _Answering) -> None:
        answering.is_late = True
        self._went_on(answering, None)

    def _went_on(self, answering: _Answering, cold: ColdLookUp | None) -> None:
        if answering.request.is_abandoned:
            return
        try:
            self._go_on(answering, cold)
        except Exception as error:
            self._fail(answering.request, error)


Found = TimestampAndOffset | None | ColdLookUp


def _look_up(partition: Partition, asked: ListOffsetsPartition, cold: ColdLookUp | None) -> Found:
    """A look-up by time reads the log, so a disk error is the partition's, as in a read."""
    try:
        return _find(partition, asked, cold)
    except (OSError, CorruptFileError, KafkaStorageError) as error:
        partition.reports.disk_error(partition, error)
        raise KafkaStorageError(f"{partition.topic_partition}: reading failed: {error}") from error


def _find(partition: Partition, asked: ListOffsetsPartition, cold: ColdLookUp | None) -> Found:
    leading = partition.leader_state(asked.current_leader_epoch)
    log = partition.log
    if asked.timestamp_ms == EARLIEST_TIMESTAMP:
        return TimestampAndOffset(-1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset))
    if partition.high_watermark < leading.epoch_start_offset:
        raise unknown_high_watermark(partition.topic_partition, partition.high_watermark, leading.epoch_start_offset)
    if asked.timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(-1, partition.high_watermark, partition.state.leader_epoch)
    if asked.timestamp_ms != MAX_TIMESTAMP and asked.timestamp_ms < 0:
        raise InvalidRequestError(f"timestamp_ms {asked.timestamp_ms} must be 0 or more, or -1, -2 or -3")
    if cold is not None:
        found = log.reader.finish_look_up(cold, log.log_start_offset)
    elif asked.timestamp_ms == MAX_TIMESTAMP:
        found = log.reader.look_up_nowait(TimeLookUp(log.log_start_offset, None, partition.high_watermark))
    else:
        found = log.reader.look_up_nowait(TimeLookUp(log.log_start_offset, asked.timestamp_ms))
    if isinstance(found, TimestampAndOffset) and found.offset >= partition.high_watermark:
        return None
    return found
