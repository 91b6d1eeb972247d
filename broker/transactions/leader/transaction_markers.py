"""WriteTxnMarkers: a coordinator of transactions has this leader write how they ended. From brokers only (KIP-98).
EndHangingTransaction: an administrator has it abort one that no coordinator will end (KIP-664).

A marker is a control batch with acks=all: its result is known AFTER it is committed, or after MARKER_WAIT_MS. The
coordinator then asks again, which is free: a marker that is there already is not written twice. A partition that fails
holds up no other. A marker for `__consumer_offsets` also changes the state of the groups there, so the coordinator of
groups writes it.

A call may be carried out late, when its coordinator has long asked again and had its answer. With version 1 the next
transaction of the producer has the same epoch, and such a call must not end it: one of an earlier lead is
FENCED_LEADER_EPOCH, and one in this lead finds the end told (`replication/leader/transaction_guards.py`), and is
answered.

Not here: which markers a log refuses (storage/append/), and who leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.leader_appends import ACKS_ALL, LeaderAppends
from broker.replication.leader.purgatory import OffsetWaiters, Waiter
from broker.replication.leader.transaction_guards import DecidedEnd
from broker.replication.partition import Partition
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.base_error import without_frames
from penstock.clock import Clock
from penstock.errors import ApiError, FencedLeaderEpochError, InvalidTxnStateError, RequestTimedOutError
from penstock.messages.transactions.listing import EndHangingTransactionRequest, EndHangingTransactionResponse
from penstock.messages.transactions.markers import (
    MarkedPartition,
    MarkedPartitionResult,
    TxnMarker,
    TxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR
from storage.append.producer_rules import BUMPING_VERSION

MARKER_WAIT_MS: Final = 10_000
"""Longer than a commit takes; a follower that hangs leaves the ISR later than that, and the coordinator asks again."""


class OffsetsMarkers(Protocol):
    """The coordinator of groups: what it is to do about a marker in its partition."""

    def write_marker(self, partition: Partition, marker: TxnMarker, on_committed: Waiter) -> None:
        """Has it written, and calls `on_committed` once: it is committed, or the error. Or raises."""
        ...


class TransactionMarkersApi:
    """Handles WriteTxnMarkers and EndHangingTransaction."""

    def __init__(self, partitions: PartitionLookup, logs: LeaderAppends, offsets: OffsetsMarkers, clock: Clock) -> None:
        self._partitions, self._logs, self._offsets, self._clock = partitions, logs, offsets, clock

    def handle(self, request: Request, body: WriteTxnMarkersRequest) -> None:
        answer = _Answer(request, body)
        for number, marker in enumerate(body.markers):
            for asked in marker.partitions:
                result = answer.add(number)
                try:
                    self._write(marker, asked, result)
                except ApiError as error:
                    result.notify(without_frames(error))
        answer.all_asked()

    def _write(self, marker: TxnMarker, asked: MarkedPartition, result: _Result) -> None:
        partition = self._partitions.get(asked.partition, asked.topic_id)
        leader_epoch = partition.leader_state().leader_epoch
        if asked.leader_epoch is not None and asked.leader_epoch < leader_epoch:
            raise FencedLeaderEpochError(
                f"{asked.partition} is led in epoch {leader_epoch}, and the marker is for epoch {asked.leader_epoch}"
            )
        if marker.transaction_version < BUMPING_VERSION:
            end = DecidedEnd(marker.coordinator_epoch, marker.decided_ms)
            if partition.guards.is_late(marker.producer_id, end):
                result.notify(None)
                return
            result.when_written = partial(partition.guards.note_end, marker.producer_id, end)
        if asked.partition.topic != CONSUMER_OFFSETS:
            result.waits_at = partition.acks_all
        self._write_to(partition, marker, result.notify)

    def _write_to(self, partition: Partition, marker: TxnMarker, on_committed: Waiter) -> None:
        if partition.topic_partition.topic == CONSUMER_OFFSETS:
            self._offsets.write_marker(partition, marker, on_committed)
        else:
            append_marker(self._logs, partition, marker, self._clock.wall_ms(), on_committed)

    def end_hanging(self, request: Request, body: EndHangingTransactionRequest) -> None:
        """An abort in the coordinator's place. Its epoch is the one that the log knows, so the coordinator is not
        fenced by it, and a marker of its own that comes late finds nothing open."""
        partition = self._partitions.get(body.partition, body.topic_id)
        partition.leader_state()
        transactions, producer_id = partition.log.transactions, body.producer_id
        is_open = transactions.is_open(producer_id, body.producer_epoch)
        if not is_open or transactions.open_of(producer_id) != body.start_offset:
            raise InvalidTxnStateError(
                f"{body.partition}: producer id {producer_id} has no open transaction of epoch {body.producer_epoch} "
                f"that begins at offset {body.start_offset}"
            )
        epoch = max(transactions.coordinator_epoch_of(producer_id), 0)
        marker = TxnMarker(producer_id, body.producer_epoch, False, epoch, ())
        answer = _HangingEnd(request, partition.acks_all)
        try:
            self._write_to(partition, marker, answer.notify)
        except ApiError as error:
            answer.notify(without_frames(error))


def append_marker(
    logs: LeaderAppends, partition: Partition, marker: TxnMarker, wall_ms: int, on_committed: Waiter
) -> None:
    """Appends the marker, and calls `on_committed` when it is committed; raises if it is not appended. A marker that
    the log does not need is not written; `on_committed` is then called when the record that makes it needless is
    committed."""
    end = Marker(marker.producer_id, marker.producer_epoch, marker.is_committed, marker.coordinator_epoch)
    partition.leader_state()
    info = partition.log.transactions.answer_marker(end, marker.transaction_version)
    if info is None:
        info = logs.append(partition, build_marker(end, wall_ms), ACKS_ALL, COORDINATOR)
    if marker.transaction_version < BUMPING_VERSION:
        partition.guards.marked(marker.producer_id)  # a batch of the transaction may be waiting for its coordinator
    logs.when_acked(partition, info, ACKS_ALL, on_committed)


class _HangingEnd:
    """The answer to EndHangingTransaction: the marker is committed, or the error, or that it was not in time."""

    __slots__ = ("_request", "_timer", "_waits_at", "notify")

    def __init__(self, request: Request, waits_at: OffsetWaiters) -> None:
        self._request, self._waits_at = request, waits_at
        self.notify = self._notify  # one object: waiters are looked for by identity
        loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = loop.call_later(MARKER_WAIT_MS / 1000, self._time_up)

    def _time_up(self) -> None:
        self._waits_at.discard(self.notify)
        self._notify(RequestTimedOutError(f"the abort was not committed within {MARKER_WAIT_MS} ms; it may be yet"))

    def _notify(self, error: ApiError | None) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if error is None:
            self._request.complete(EndHangingTransactionResponse())
        else:
            self._request.fail(error)


class _Result:
    """The result for one partition. Only the first that is told counts."""

    __slots__ = ("_answer", "error", "is_known", "notify", "waits_at", "when_written")

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer
        self.error: ApiError | None = None
        self.is_known = False
        self.waits_at: OffsetWaiters | None = None
        self.when_written: Callable[[], None] | None = None
        self.notify = self._notify  # one object: waiters are looked for by identity

    def _notify(self, error: ApiError | None) -> None:
        if error is None and self.when_written is not None:
            self.when_written()
        if not self.is_known:
            self.is_known, self.error = True, error
            self._answer.one_is_known()

    def give_up(self) -> None:
        """Time is up."""
        if not self.is_known:
            self.is_known = True
            self.error = RequestTimedOutError(f"the marker was not committed within {MARKER_WAIT_MS} ms; ask again")
            if self.waits_at is not None:
                self.waits_at.discard(self.notify)


class _Answer:
    """One request and its results so far."""

    __slots__ = ("_body", "_left", "_request", "_results", "_timer")

    def __init__(self, request: Request, body: WriteTxnMarkersRequest) -> None:
        self._request, self._body = request, body
        self._results: list[list[_Result]] = [[] for _ in body.markers]
        self._left = 1  # for `all_asked`
        self._timer: asyncio.TimerHandle | None = None

    def add(self, number: int) -> _Result:
        """The result for the next partition of a marker."""
        result = _Result(self)
        self._results[number].append(result)
        self._left += 1
        return result

    def all_asked(self) -> None:
        self.one_is_known()
        if self._left:
            self._timer = asyncio.get_running_loop().call_later(MARKER_WAIT_MS / 1000, self._time_up)

    def one_is_known(self) -> None:
        self._left -= 1
        if not self._left:
            self._complete()

    def _time_up(self) -> None:
        for results in self._results:
            for result in results:
                result.give_up()
        self._complete()

    def _complete(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        markers = tuple(
            TxnMarkerResult(
                marker.producer_id,
                tuple(
                    MarkedPartitionResult(asked.partition, result.error)
                    for asked, result in zip(marker.partitions, results, strict=True)
                ),
            )
            for marker, results in zip(self._body.markers, self._results, strict=True)
        )
        outcomes = [result for marker in markers for result in marker.partitions]
        self._request.complete(WriteTxnMarkersResponse(markers), outcomes)
