"""One fetch stream's session on the leader's side: its partitions, the news for it, and its one waiting request.

A stream is an incremental fetch session (KIP-227): a request names only the partitions that changed, and the session
remembers the others. Partitions tell the session when they change, so a turn costs in proportion to what is new, not to
what is watched. What is new is served in the order in which it became new, and a partition that was served goes to the
back: that is the rotation that keeps one busy partition from starving the others.

Records that have to be read from a disk are read in a thread, and are in a later answer (`cold_fetches.py`).

A request that finds too little waits here (the delayed-fetch purgatory), until a partition wakes it or its time is up.

An answer is built only when there is room for it in the node's budget of answers, and is then no larger than that room;
until then the request is paused. Followers are counted and never paused: acks wait for them. A session that holds
records from a disk is not paused either: they are counted already, and only their answer gives that room back.

An exception while a request is handled is its handler's; one that comes later, when the request is woken, is given to
`fail`, which answers the request as a handler's exception would be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from broker.apis.cold_fetches import DISK_WAIT_MS, ColdFetches
from broker.network.failed_requests import FailRequest
from broker.network.io_threads import IoPort
from broker.network.memory_budget import Account, Lease
from broker.network.request_channel import Request
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from broker.requests import FetchPartition, FetchRequest, FetchResponse, PartitionFetchResult
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    InvariantViolation,
    ResourceExhaustedError,
    StaleBrokerEpochError,
    without_frames,
)
from penstock.types import NO_OFFSET, EpochEndOffset, OffsetAndEpoch, TopicPartition
from storage.segment.cold_read import ColdRead

SESSION_PARTITIONS_MAX = 100_000
"""Partitions of one session."""
SESSION_PARTITION_BYTES = 800
"""What one of them costs: its entry here, its names, and the session's place among the partition's watchers."""
ANSWER_COPIES = 2
"""An answer is in memory so often: as the log's records and their message, then as the message and gRPC's copy of it.
Measured: with 20 answers of 8 MB that no client read, a node had grown by 2.04 times their bytes, at its peak too."""
ANSWER_BYTES_MIN = 64 * 1024
"""With less room than this an answer is not begun, or a busy node would send crumbs."""

GetPartition = Callable[[TopicPartition, str], Partition]
"""`HostedPartitions.get`."""


@dataclass(slots=True)
class _Watched:
    """A partition of the session, and what the last answer told the fetcher of it."""

    wanted: FetchPartition
    diverging: EpochEndOffset | None = None
    error: ApiError | None = None
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    sent_records_at: int = -1
    doubted_at: int = -1
    source: Partition | None = None


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """The stream's accounts: for answers that are built and not yet written, and for what the session remembers."""

    answers: Account
    session: Account

    def close(self) -> None:
        self.answers.close()
        self.session.close()


class FetchSession:
    """Lives as long as its stream. At most one of its requests waits at a time."""

    def __init__(
        self,
        get: GetPartition,
        clock: Clock,
        response_bytes_max: int,
        count_bytes: Callable[[int, bool], None],
        memory: SessionMemory,
        fail: FailRequest,
        io: IoPort,
    ) -> None:
        self._fail = fail
        self._memory = memory
        self._cold = ColdFetches(io, memory.answers, lambda partition: self.partition_changed(partition, True))
        self._remembered = memory.session.take(0)
        self._paused: deque[tuple[Request, bool]] = deque()
        self._get = get
        self._count_bytes = count_bytes
        self._clock = clock
        self._response_bytes_max = response_bytes_max
        self._watched: dict[TopicPartition, _Watched] = {}
        self._new: dict[TopicPartition, None] = {}
        self._waiting: Request | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = False  # the time of the waiting request is up; it waits for a disk
        self._wake_scheduled = False
        self._replica_id = -1
        self._broker_epoch = -1
        self._closed = False
        self.is_replica = False

    # -- a request comes -----------------------------------------------------------------------------------------------

    def handle(self, request: Request, body: FetchRequest) -> None:
        """Answer now, or wait until enough is new or `max_wait_ms` passed."""
        if self._closed:
            return  # the stream ended while the request was queued: its watches would never be removed
        if self._waiting is not None:
            self._is_overdue = True
            self._time_up()
        if body.max_wait_ms < 0 or body.max_bytes < 0:
            raise InvalidRequestError(f"fetch: max_wait_ms {body.max_wait_ms}, max_bytes {body.max_bytes}: negative")
        added = sum(wanted.partition not in self._watched for wanted in body.partitions)
        if len(self._watched) + added > SESSION_PARTITIONS_MAX:
            raise InvalidRequestError(f"fetch: more than {SESSION_PARTITIONS_MAX} partitions in one session")
        if added and body.replica_id < 0 and self._memory.session.room() < added * SESSION_PARTITION_BYTES:
            raise ResourceExhaustedError(
                "fetch sessions use all of fetch.sessions.max.bytes on this node, or half of it from your address;"
                " close a consumer, or raise it"
            )
        asker = body.replica_id, body.broker_epoch
        if self._watched and asker != (self._replica_id, self._broker_epoch):
            # Partitions that the request does not name would keep the earlier epoch, and a caught-up follower that
            # registered anew could not join their ISRs. On a new stream the follower names all partitions.
            raise StaleBrokerEpochError(f"the session is of replica {self._replica_id}, epoch {self._broker_epoch}")
        self._replica_id, self._broker_epoch = asker
        self.is_replica = body.replica_id >= 0
        for partition in body.forgotten:
            self._forget(partition)
        for wanted in body.partitions:
            self._want(wanted)
        self._remembered.resize(len(self._watched) * SESSION_PARTITION_BYTES)
        self._answer(request, is_due=body.max_wait_ms == 0)

    def _want(self, wanted: FetchPartition) -> None:
        partition = wanted.partition
        watched = self._watched.get(partition)
        if watched is None:
            watched = self._watched[partition] = _Watched(wanted)
        watched.wanted, watched.error, watched.diverging = wanted, None, None
        self._cold.keep_only(partition, wanted.fetch_offset)
        try:
            watched.source = self._source(watched)
            if self.is_replica:
                self._maybe_doubt(watched, watched.source)
                # A follower may have dropped an earlier answer: only its present request says what it has.
                watched.sent_high_watermark, watched.sent_log_start_offset = NO_OFFSET, wanted.log_start_offset
                watched.diverging = watched.source.note_follower_fetch(
                    self._replica_id,
                    self._broker_epoch,
                    ReplicaPosition(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset),
                    wanted.current_leader_epoch,
                    self._clock.now_ms(),
                )
        except ApiError as error:
            watched.error = without_frames(error)
        self._new.pop(partition, None)
        self._new[partition] = None

    def _maybe_doubt(self, watched: _Watched, source: Partition) -> None:
        """A follower that asks again for records that it was sent may have got damaged ones. Once for each offset,
        because a full disk on the follower has the same effect."""
        offset = watched.wanted.fetch_offset
        if watched.sent_records_at == offset != watched.doubted_at:
            watched.doubted_at = offset
            source.doubt_records()

    def _source(self, watched: _Watched) -> Partition:
        """The hosted partition, watched by this session from now on."""
        wanted = watched.wanted
        source = self._get(wanted.partition, wanted.topic_id)
        if watched.source is not source:
            if watched.source is not None:
                watched.source.watchers.pop(self, None)
            source.watchers[self] = None
        return source

    def _forget(self, partition: TopicPartition) -> None:
        watched = self._watched.pop(partition, None)
        self._new.pop(partition, None)
        self._cold.drop(partition)
        if watched is not None and watched.source is not None:
            watched.source.watchers.pop(self, None)

    # -- something changes ---------------------------------------------------------------------------------------------

    def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
        self._new[partition] = None
        is_asked = self._waiting is not None or (self._paused and self._cold.has_found)
        if wake and is_asked and not self._wake_scheduled:
            # One answer for all news of this turn of the loop.
            self._wake_scheduled = True
            asyncio.get_running_loop().call_soon(self._woken)

    def _woken(self) -> None:
        self._wake_scheduled = False
        if self._waiting is not None:
            self._answer_late(self._waiting, is_due=False)
        elif self._paused and self._cold.has_found:
            self._memory.answers.withdraw()
            self._resume(self._memory.answers.take(0))

    def _time_up(self) -> None:
        if self._waiting is not None:
            self._answer_late(self._waiting, is_due=True)

    def _answer_late(self, request: Request, *, is_due: bool) -> None:
        """`_answer` outside of the handler: an exception must be answered here."""
        try:
            self._answer(request, is_due=is_due)
        except Exception as error:
            self._failed(request, error)

    def _failed(self, request: Request, error: Exception) -> None:
        if self._waiting is request:
            self._wait_no_more()
        self._fail(request, error)

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, *, is_due: bool) -> None:
        """Answer if the request `is_due` or enough is new, and there is room for the answer; otherwise wait."""
        if self._paused:
            self._pause(request, is_due)
        elif self.is_replica:
            self._build(request, is_due, self._memory.answers.take(0), self._response_bytes_max)
        elif self._cold.has_found:
            self._build(request, is_due, self._memory.answers.take(0), self._room())
        else:
            lease = self._memory.answers.acquire(ANSWER_COPIES * ANSWER_BYTES_MIN, self._resume)
            if lease is None:
                self._pause(request, is_due)
            else:
                self._build(request, is_due, lease, self._room())

    def _room(self) -> int:
        """How large an answer may be, by its memory lease."""
        return ANSWER_BYTES_MIN + self._memory.answers.room() // ANSWER_COPIES

    def _pause(self, request: Request, is_due: bool) -> None:
        is_due = is_due or self._is_overdue
        self._wait_no_more()
        self._paused.append((request, is_due))

    def _resume(self, lease: Lease) -> None:
        """There is room for the answer to the oldest request that was paused."""
        request, is_due = self._paused.popleft()
        later, self._paused = self._paused, deque()
        try:
            self._build(request, is_due or bool(later), lease, self._room())
        except Exception as error:
            self._failed(request, error)
        for request, is_due in later:
            self._answer_late(request, is_due=is_due)

    def _build(self, request: Request, is_due: bool, lease: Lease, room: int) -> None:
        body = request.body
        if not isinstance(body, FetchRequest):
            raise InvariantViolation(f"{request} is not a fetch")
        try:
            results, size, urgent = self._collect(body, room, lease.size)
        except BaseException:
            lease.release()  # only this frame has it; the end of the stream would not release it
            raise
        waits_for_disk = not results and not self.is_replica and self._cold.is_reading
        if is_due and waits_for_disk and not self._is_overdue:
            self._wait_no_more()
            self._is_overdue = True
        elif is_due or (self._is_overdue and results) or urgent or size >= max(1, body.min_bytes):
            self._wait_no_more()
            lease.resize(ANSWER_COPIES * size)
            request.response_lease = lease
            self._send(request, body, results, size)
            return
        lease.release()
        if self._waiting is None:
            self._waiting = request
            wait_ms = DISK_WAIT_MS if self._is_overdue else body.max_wait_ms
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._time_up)

    def _wait_no_more(self) -> None:
        self._waiting, self._is_overdue = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self, body: FetchRequest, most: int, leased: int) -> tuple[list[PartitionFetchResult], int, bool]:
        """Results for what is new, their record bytes, and whether one of them must not wait."""
        room = min(body.max_bytes or self._response_bytes_max, self._response_bytes_max, most)
        results: list[PartitionFetchResult] = []
        size, urgent = 0, False
        for partition in tuple(self._new):
            watched = self._watched.get(partition)
            if watched is None:
                del self._new[partition]
                continue
            if size and size >= room:
                break
            result = self._read(watched, room - size, leased)
            if result is None:
                del self._new[partition]  # it is new again when its records are there
                continue
            if result.error is not None or result.diverging_epoch is not None:
                urgent = True
            elif not result.records and not self._has_news(watched, result):
                del self._new[partition]
                continue
            urgent = urgent or self._is_late(watched, result)
            size += len(result.records)
            results.append(result)
        return results, size, urgent

    def _read(self, watched: _Watched, room: int, leased: int) -> PartitionFetchResult | None:
        """None while its records are read from the disk: it is in a later answer then."""
        wanted = watched.wanted
        result = PartitionFetchResult(wanted.partition, wanted.topic_id, wanted.fetch_offset)
        try:
            if watched.error is not None:
                raise watched.error
            source = watched.source = self._source(watched)
            source.leader_state(wanted.current_leader_epoch)
            result.high_watermark = source.high_watermark
            result.log_start_offset = source.log.log_start_offset
            diverging = watched.diverging
            if not self.is_replica:
                diverging = source.diverging_epoch(OffsetAndEpoch(wanted.fetch_offset, wanted.last_fetched_epoch))
            if diverging is not None:
                result.diverging_epoch = diverging
            else:
                if self._cold.is_awaited(wanted.partition):
                    return None
                limit = min(room, wanted.max_bytes) if wanted.max_bytes > 0 else room
                cold = self._cold.found(wanted.partition)
                found = source.read(wanted.fetch_offset, limit, is_replica=self.is_replica, cold=cold)
                if isinstance(found, ColdRead):
                    log_dir, is_replica = source.log.log_dir, self.is_replica
                    self._cold.begin(wanted.partition, log_dir, found, is_replica=is_replica, answer_bytes=leased)
                    return None
                result.records = found
        except ApiError as error:
            result.error = without_frames(error)
        return result

    def _has_news(self, watched: _Watched, result: PartitionFetchResult) -> bool:
        told = watched.sent_high_watermark, watched.sent_log_start_offset
        return told != (result.high_watermark, result.log_start_offset)

    def _is_late(self, watched: _Watched, result: PartitionFetchResult) -> bool:
        """Whether the follower has not been told of the new log start: a deletion waits for it."""
        known = watched.sent_log_start_offset
        return self.is_replica and NO_OFFSET < known < result.log_start_offset

    def _send(self, request: Request, body: FetchRequest, results: list[PartitionFetchResult], size: int) -> None:
        for result in results:
            del self._new[result.partition]
            watched = self._watched[result.partition]
            watched.sent_high_watermark = result.high_watermark
            watched.sent_log_start_offset = result.log_start_offset
            watched.sent_records_at = result.fetch_offset if result.records else NO_OFFSET
            self._cold.drop(result.partition)
            if result.error is not None:
                self._forget(result.partition)
        self._remembered.resize(len(self._watched) * SESSION_PARTITION_BYTES)
        self._count_bytes(size, self.is_replica)
        request.complete(FetchResponse(body.correlation_id, results), results)

    def close(self) -> None:
        """The stream is gone."""
        self._closed = True
        self._wait_no_more()
        self._paused.clear()
        self._cold.close()
        self._remembered.release()
        self._memory.close()
        for watched in self._watched.values():
            if watched.source is not None:
                watched.source.watchers.pop(self, None)
        self._watched.clear()
        self._new.clear()

    def __repr__(self) -> str:
        return f"FetchSession(replica {self._replica_id}, {len(self._watched)} partitions, {len(self._new)} new)"
