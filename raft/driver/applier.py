"""Gives committed batches and changes of the leader to the listeners, and tells proposers that their batch is
committed.

Each subscription has its own position, so that a late subscriber still sees the log from its start. A call of
`deliver_some` is bounded in bytes: a long replay takes many turns, and the quorum's own work goes between them.
A node announces itself as leader only when it has delivered a record of its own epoch (Redpanda #5090: a leader with
the votes served before its epoch was committed).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from penstock.errors import InvariantViolation, NotControllerError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import iter_headers
from penstock.types import NO_LEADER, LeaderHint
from raft.driver.protocols import LoadedSnapshot, RaftListener, RaftLog

ReadLog = Callable[[int, int, int], Awaitable[bytes]]
"""Reads the log from an offset, at most so many bytes, up to an offset (log_reads.py)."""
CHUNK_BYTES = 1 << 20
"""Delivered between two rounds of the quorum's own work; about 10 ms of JSON decoding in a listener."""


@dataclass(slots=True)
class Subscriber:
    listener: RaftListener
    next_offset: int
    announced: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    last_offset: int
    future: asyncio.Future[int]


class Applier:
    """Remembers what was delivered to each listener."""

    def __init__(self, log: RaftLog, read: ReadLog) -> None:
        self._log, self._read = log, read
        self._subscriptions: list[Subscriber] = []
        self._proposals: deque[Proposal] = deque()

    def __repr__(self) -> str:
        return f"Applier(at {[sub.next_offset for sub in self._subscriptions]}, {len(self._proposals)} waiting)"

    @property
    def proposals_waiting(self) -> int:
        return len(self._proposals)

    def applied_offset(self, committed_offset: int) -> int:
        """Everything below has been delivered to every listener."""
        return min((sub.next_offset for sub in self._subscriptions), default=committed_offset)

    def subscribe(self, listener: RaftListener) -> None:
        """Gives the listener all committed batches from now on, the loaded snapshot first. InvariantViolation if the
        log's beginning is gone meanwhile."""
        subscriber, loaded = Subscriber(listener, 0), self._log.loaded
        if loaded is not None:
            subscriber.next_offset = loaded.snapshot_id.end_offset
            listener.on_snapshot(loaded)
        if subscriber.next_offset < self._log.log_start_offset:
            raise InvariantViolation(f"{listener!r} came after the log was cut to {self._log.log_start_offset}")
        self._subscriptions.append(subscriber)

    def install(self, snapshot: LoadedSnapshot) -> None:
        """The snapshot has replaced the log. Invariant: no listener was given more than it has."""
        for subscriber in self._subscriptions:
            if subscriber.next_offset >= snapshot.snapshot_id.end_offset:
                raise InvariantViolation(f"{snapshot.snapshot_id} was installed after {subscriber.next_offset}")
            subscriber.next_offset = snapshot.snapshot_id.end_offset
            subscriber.listener.on_snapshot(snapshot)

    def expect(self, last_offset: int, future: asyncio.Future[int]) -> None:
        """Resolve `future` when everything up to `last_offset` was delivered."""
        self._proposals.append(Proposal(last_offset, future))

    def has_work(self, committed_offset: int) -> bool:
        """True if something is to be delivered or, without a listener, a proposer waits for its answer."""
        applied = self.applied_offset(committed_offset)
        return applied < committed_offset or bool(self._proposals and self._proposals[0].last_offset < applied)

    async def deliver_some(self, committed_offset: int) -> None:
        """Deliver the next committed batches to each listener that lacks them; then complete their proposals. Waits for
        a disk that must be asked: leaders, subscribers and lost leads may come meanwhile, and nothing else."""
        for subscription in tuple(self._subscriptions):
            if subscription.next_offset < committed_offset:
                await self._deliver(subscription, committed_offset)
        applied = self.applied_offset(committed_offset)
        while self._proposals and self._proposals[0].last_offset < applied:
            proposal = self._proposals.popleft()
            if not proposal.future.done():
                proposal.future.set_result(proposal.last_offset)

    def announce(self, leader_id: int, epoch: int, own_from: int | None) -> None:
        """Tell the listeners who leads, if that is new to them. If it is this node, its epoch begins at `own_from`; a
        listener that has not seen that record yet is told that there is no leader."""
        for subscription in self._subscriptions:
            active = own_from is None or subscription.next_offset > own_from
            news = (leader_id if active else NO_LEADER, epoch)
            if subscription.announced != news:
                subscription.announced = news
                subscription.listener.on_leader_change(*news)

    def fail_uncommitted(self, committed_offset: int, leader_id: int, epoch: int) -> None:
        """Leadership was lost: proposals beyond the high watermark may or may not survive."""
        kept: deque[Proposal] = deque()
        for proposal in self._proposals:
            if proposal.last_offset < committed_offset:
                kept.append(proposal)
            elif not proposal.future.done():
                hint = None if leader_id == NO_LEADER else LeaderHint(leader_id, epoch)
                why = f"leadership was lost before offset {proposal.last_offset} was committed: the outcome is unknown"
                proposal.future.set_exception(NotControllerError(why, leader=hint))
        self._proposals = kept

    async def _deliver(self, subscription: Subscriber, committed_offset: int) -> None:
        records = await self._read(subscription.next_offset, CHUNK_BYTES, committed_offset)
        base_offset = next_offset = subscription.next_offset
        for _, header in iter_headers(records):
            if header.base_offset != next_offset:
                raise InvariantViolation(f"read at {next_offset} gave a batch at {header.base_offset}")
            next_offset = header.next_offset
        if not base_offset < next_offset <= committed_offset:
            raise InvariantViolation(f"read at {base_offset} gave nothing up to the high watermark {committed_offset}")
        subscription.next_offset = next_offset
        subscription.listener.on_committed(base_offset, records)
