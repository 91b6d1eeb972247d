"""One fetch session on the leader's side: when its requests are answered, and how large an answer may be (KIP-227).

Partitions tell the session when they change, so a turn costs in proportion to what is new, not to what is watched.
`session_partitions.py` has what is watched and what is new.

A stream is a session, and so is what Kafka's clients name by an id. On a stream the next request ends the wait of the
one before: its position is the newer one. The requests of another session have their turns one after another.

A request that finds too little waits here (the delayed-fetch purgatory), until a partition wakes it or its time is up.
A request that finds records only on a disk waits for the thread that reads them (`cold_fetches.py`).

An answer is built only when there is room for it in the node's budget of answers, and is then no larger than that room;
until then the request is paused. Followers are counted and never paused: acks wait for them. A session that holds
records from a disk is not paused either: they are counted already, and only their answer gives that room back. A
session that outlives its requests keeps them for KEPT_MS after the last: its client may never come again.

An exception while a request is handled is its handler's; one that comes later, when the request is woken, is given to
`fail`, which answers the request as a handler's exception would be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from broker.apis.fetch_sessions.cold_fetches import ColdFetches
from broker.apis.fetch_sessions.session_partitions import SessionPartitions
from broker.apis.fetch_sessions.watched_partition import GetPartition
from broker.network.failed_requests import FailRequest
from broker.network.io_threads import IoPort
from broker.network.memory_budget import Account, Lease
from broker.network.request_channel import Request
from broker.replication.follower.follower_reads import BEHIND_MS
from broker.replication.move_throttle import MoveThrottle
from broker.replication.read_replicas import ReadReplicas
from penstock.clock import Clock
from penstock.errors import InvalidRequestError, InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.types import TopicPartition

ANSWER_COPIES = 2
"""The copies of an answer in memory: first the log's records and their message, then the message and gRPC's copy of it.
Measured: with 20 answers of 8 MB that no client read, a node had grown by 2.04 times their bytes, at its peak too."""
ANSWER_BYTES_MIN = 64 * 1024
"""The least room with which an answer is begun. With less, a busy node would send crumbs."""
DISK_WAIT_MS = 1_000
"""The time that a consumer's answer that would be empty waits for records that a thread reads, even past max_wait_ms.
Without it a consumer that does not wait, and opens a stream for each request, would never get cold records."""
KEPT_MS = 1_000
"""A client that goes on fetching asks again within this time."""

WAIT_MS_MAX = 60_000
"""A fetch waits no longer for records, whatever `max_wait_ms` says; its client asks again. Log-ins are judged when a
request comes: without a bound, fetches that wait would bring records for days to a client whose log-in has ended."""

CountOut = Callable[[Sequence[PartitionFetchResult], int, bool], None]
"""`Traffic.count_out`."""


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """The session's accounts: for answers that are built and not yet written, and for what the session remembers."""

    answers: Account
    session: Account

    def close(self) -> None:
        self.answers.close()
        self.session.close()


class FetchSession:
    """One fetch session on the leader's side. At most one of its requests waits for records at a time."""

    def __init__(
        self,
        get: GetPartition,
        clock: Clock,
        response_bytes_max: int,
        count_out: CountOut,
        memory: SessionMemory,
        fail: FailRequest,
        io: IoPort,
        throttle: MoveThrottle,
        readers: ReadReplicas,
        *,
        is_stream: bool = True,
    ) -> None:
        """`throttle` is that of this broker as a leader; `readers` says where consumers with racks read.
        `is_stream`: it lives and dies with a stream of requests."""
        self._fail = fail
        self._memory = memory
        self._cold = ColdFetches(io, memory.answers, lambda partition: self.partition_changed(partition, True))
        account = memory.session
        self.partitions = SessionPartitions(
            get=get,
            clock=clock,
            memory=account,
            cold=self._cold,
            watcher=self,
            throttle=throttle,
            readers=readers,
            is_stream=is_stream,
        )
        self._is_stream = is_stream
        self._queued: deque[tuple[Request, FetchRequest]] = deque()
        """Requests whose turn comes after the one that waits or is paused."""
        self._paused: deque[tuple[Request, bool]] = deque()
        self._count_out = count_out
        self._response_bytes_max = response_bytes_max
        self._waiting: Request | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = False  # the time of the waiting request is up; it waits for a disk
        self._wake_scheduled = False
        self._held_timer: asyncio.TimerHandle | None = None  # until the throttle has room for copies again
        self._kept_timer: asyncio.TimerHandle | None = None  # until records are kept for no request any more
        self._closed = False

    @property
    def is_replica(self) -> bool:
        """True if the session is a follower's."""
        return self.partitions.is_replica

    # -- a request comes -----------------------------------------------------------------------------------------------

    def handle(self, request: Request, body: FetchRequest) -> None:
        """Answer now, or wait until enough is new or `max_wait_ms` passed, or WAIT_MS_MAX."""
        if self._closed:
            return  # the stream ended while the request was queued: its watches would never be removed
        if self._is_stream:
            self._give_way()
        elif self._must_queue():
            self._queued.append((request, body))
            return
        self._begin(request, body)

    def _begin(self, request: Request, body: FetchRequest) -> None:
        if self._kept_timer is not None:
            self._kept_timer.cancel()
            self._kept_timer = None
        if body.max_wait_ms < 0 or body.max_bytes < 0:
            raise InvalidRequestError(f"fetch: max_wait_ms {body.max_wait_ms}, max_bytes {body.max_bytes}: negative")
        self.partitions.judged_by(request.rights)
        self.partitions.update(body, request.caller.listener)
        has_nothing = not (self._is_stream or len(self.partitions))
        self._answer(request, is_due=body.max_wait_ms == 0 or has_nothing)

    def _give_way(self) -> None:
        """Another request comes behind the one that waits: answer that now, or pause it for its memory."""
        if self._waiting is not None:
            self._is_overdue = True
            self._time_up()

    def _must_queue(self) -> bool:
        if self._waiting is not None and self._waiting.is_abandoned:
            self._wait_no_more()  # its connection is gone, and the session goes on by another one
        return self._waiting is not None or bool(self._paused or self._queued)

    def _next_turn(self) -> None:
        """The request before it is answered, or has failed."""
        while self._queued and self._waiting is None and not self._paused:
            request, body = self._queued.popleft()
            try:
                if not request.is_abandoned:
                    self._begin(request, body)
            except Exception as error:
                self._failed(request, error)

    # -- something changes ---------------------------------------------------------------------------------------------

    def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
        self.partitions.note_news(partition)
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
        self._end_turn()

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
            self._build(request, is_due, lease, self._room())
        except Exception as error:
            self._failed(request, error)
        for request, is_due in later:
            self._give_way()
            self._answer_late(request, is_due=is_due)

    def _build(self, request: Request, is_due: bool, lease: Lease, room: int) -> None:
        body = request.body
        if not isinstance(body, FetchRequest):
            raise InvariantViolation(f"{request} is not a fetch")
        room = min(body.max_bytes or self._response_bytes_max, self._response_bytes_max, room)
        try:
            results, size, must_go = self.partitions.collect(room, lease.size)
        except BaseException:
            lease.release()  # only this frame has it; the end of the stream would not release it
            raise
        self._hold()
        waits_for_disk = not results and not self.is_replica and self._cold.is_reading
        if is_due and waits_for_disk and not self._is_overdue:
            self._wait_no_more()
            self._is_overdue = True
        elif is_due or (self._is_overdue and results) or must_go or size >= max(1, body.min_bytes):
            self._wait_no_more()
            lease.resize(ANSWER_COPIES * size)
            request.response_lease = lease
            self._send(request, body, results, size)
            return
        lease.release()
        if self._waiting is None:
            self._waiting = request
            wait_ms = DISK_WAIT_MS if self._is_overdue else min(body.max_wait_ms, WAIT_MS_MAX)
            if self.partitions.is_behind:
                wait_ms = min(wait_ms, BEHIND_MS)
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._time_up)

    def _hold(self) -> None:
        """Copies that the throttle has no room for are looked at again in time."""
        if self._held_timer is None and (wait_ms := self.partitions.held_ms()):
            self._held_timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._held_no_more)

    def _held_no_more(self) -> None:
        self._held_timer = None
        if self.partitions.release_held() and not self._wake_scheduled:
            self._woken()

    def _wait_no_more(self) -> None:
        self._waiting, self._is_overdue = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, request: Request, body: FetchRequest, results: list[PartitionFetchResult], size: int) -> None:
        self.partitions.sent(results)
        self._count_out(results, size, self.is_replica)
        answered = self.partitions.complete(results) if body.is_full else results
        request.complete(FetchResponse(answered), answered)
        self._end_turn()

    def _end_turn(self) -> None:
        if self._queued:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif not self._is_stream and not self._closed and (self._cold.is_reading or self._cold.has_found):
            self._keep()

    def _keep(self) -> None:
        if self._kept_timer is None:
            self._kept_timer = asyncio.get_running_loop().call_later(KEPT_MS / 1000, self._let_go)

    def _let_go(self) -> None:
        """Records that were read for requests that are over are kept no longer. A request whose connection has ended
        waits for nothing."""
        self._kept_timer = None
        if not self._must_queue():
            self._cold.let_go()

    def close(self) -> None:
        """The session is over."""
        self._closed = True
        self._queued.clear()
        self._wait_no_more()
        for timer in (self._held_timer, self._kept_timer):
            if timer is not None:
                timer.cancel()
        self._paused.clear()
        self._memory.close()  # BEFORE leases are released: they would grant the room that a paused request waits for
        self._cold.close()
        self.partitions.close()

    def __repr__(self) -> str:
        return f"FetchSession({self.partitions}, waits: {self._waiting}, {len(self._paused)} paused)"
