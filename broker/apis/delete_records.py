"""DeleteRecords: deletes every record below an offset, and answers when no crash can bring them back (KIP-107).

The leader's log start moves at once; followers learn it with their fetches. A partition is answered AFTER this broker's
log start is durable AND every live replica has reported a durable log start that is not below the offset. Retention
removes the segments below. A waiting request is a `DelayedOperation`. Its time-out counts the wait for other replicas:
with 0, a partition that has none is answered when this broker's own disk is done, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import in_parts, of_partition
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.purgatory import DelayedOperation, Waiter
from broker.replication.leader.record_deletion import delete_below
from broker.replication.partition import Partition
from metadata.internal_topics import check_deletion_of_records
from penstock.base_error import without_frames
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    RequestTimedOutError,
    ResourceExhaustedError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.client_apis import DELETE_RECORDS
from penstock.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)
from penstock.messages.security.acls import Operation
from penstock.types import TopicPartition

TIMEOUT_MS_MAX: Final = 600_000
OWN_DISK_MS: Final = 5_000
"""A request with a shorter time-out waits this long for this broker's own disk. Kafka writes its own log start before
the time-out begins."""
PARTITIONS_MAX: Final = DELETE_RECORDS.limits.elements["partitions"]
"""The most partitions of one request: a handler does all of them before the next request has its turn."""
OPEN_PARTITIONS_MAX: Final = 100_000
"""The most partitions of all waiting requests; each holds a few hundred bytes."""


@dataclass(slots=True)
class _Deletion:
    """One partition of a request that waits."""

    index: int
    partition: Partition
    offset: int
    number: int = -1  # with the partition's waiters, once it is one of them


class DeleteRecordsApi:
    """Handles requests to delete records."""

    def __init__(
        self, partitions: PartitionLookup, make_log_start_durable: Callable[[Partition, Waiter], None]
    ) -> None:
        """`make_log_start_durable` calls its waiter once the partition's log start is durable."""
        self._partitions, self._make_log_start_durable = partitions, make_log_start_durable
        self._open_partitions = 0

    def handle(self, request: Request, body: DeleteRecordsRequest) -> None:
        self._check(body)
        results = [DeleteRecordsResult(asked.partition) for asked in body.partitions]
        deletions: dict[int, _Deletion] = {}
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        asked_at, left_here = loop.time(), 0

        def complete() -> None:
            if timer is not None:
                timer.cancel()
            self._open_partitions -= len(deletions)
            request.complete(DeleteRecordsResponse(tuple(results)), results)

        def expired(index: int) -> None:
            late = deletions[index]
            late.partition.deletions.discard(late.number)
            results[index].error = RequestTimedOutError(
                f"{results[index].partition}: not deleted on every live replica within {body.timeout_ms} ms; the"
                f" records below {late.offset} are deleted on the leader, and the other replicas will follow"
            )

        def durable_here() -> None:
            nonlocal timer, left_here
            left_here -= 1
            if left_here == 0 and timer is not None and body.timeout_ms < OWN_DISK_MS:
                timer.cancel()
                timer = loop.call_at(asked_at + body.timeout_ms / 1000, delayed.expire)

        delayed = DelayedOperation(complete, expired)
        deletions.update(self._delete(body.partitions, results))
        self._open_partitions += len(deletions)
        for index in deletions:
            delayed.expect(index)
        if delayed.all_expected():
            timer = loop.call_at(asked_at + max(body.timeout_ms, OWN_DISK_MS) / 1000, delayed.expire)
            left_here = len(deletions)
            for index, deletion in deletions.items():
                durable = _durable(deletion, results[index], delayed, durable_here)
                self._make_log_start_durable(deletion.partition, durable)

    def _check(self, body: DeleteRecordsRequest) -> None:
        count = len(body.partitions)
        if not 1 <= count <= PARTITIONS_MAX:
            raise InvalidRequestError(f"the request names {count} partitions; from 1 to {PARTITIONS_MAX} are allowed")
        if not 0 <= body.timeout_ms <= TIMEOUT_MS_MAX:
            raise InvalidRequestError(f"timeout_ms is {body.timeout_ms}; it must be between 0 and {TIMEOUT_MS_MAX}")
        if self._open_partitions + count > OPEN_PARTITIONS_MAX:
            raise ResourceExhaustedError(f"{self._open_partitions} deletions are waiting already; try again later")

    def _delete(
        self, asked: tuple[DeleteRecordsPartition, ...], results: list[DeleteRecordsResult]
    ) -> dict[int, _Deletion]:
        """Move every log start that may be moved; returns the deletions to wait for, by their place in the request."""
        deletions: dict[int, _Deletion] = {}
        seen: set[TopicPartition] = set()
        for index, (result, wanted) in enumerate(zip(results, asked, strict=True)):
            try:
                _check_partition(wanted.partition, seen)
                partition = self._partitions.get(wanted.partition, wanted.topic_id)
                deletions[index] = _Deletion(index, partition, delete_below(partition, wanted.before_offset))
            except ApiError as error:
                result.error = without_frames(error)
        return deletions


def _check_partition(partition: TopicPartition, seen: set[TopicPartition]) -> None:
    check_deletion_of_records(partition.topic)
    if partition in seen:
        raise InvalidRequestError(f"{partition} is named twice in the request")
    seen.add(partition)


def _durable(
    deletion: _Deletion, result: DeleteRecordsResult, delayed: DelayedOperation, durable_here: Callable[[], None]
) -> Waiter:
    """A waiter for this broker's durable log start; after it, the deletion waits for the other replicas."""
    partition = deletion.partition

    def done(error: ApiError | None) -> None:
        if error is not None:
            result.error = error
        else:
            result.low_watermark = partition.low_watermark()
        delayed.partition_done(deletion.index)

    def durable(error: ApiError | None) -> None:
        if result.error is not None:
            return  # the request has timed out already
        if error is not None or partition.leading is None:
            done(error or partition.offline or partition.not_leader())
        else:
            deletion.number = partition.deletions.add(deletion.offset, done)
            partition.check_low_watermark()
        durable_here()

    return durable


SERVED: Final = (
    Served(
        api=DELETE_RECORDS,
        rule=in_parts(
            "partitions",
            DeleteRecordsResponse(),
            of_partition(Operation.DELETE),
            lambda part, error: DeleteRecordsResult(part.partition, error),
        ),
        make=lambda parts: DeleteRecordsApi(parts.hosted, parts.durability.make_log_start_durable).handle,
    ),
)
