"""The one driver: offers the quorum to the node, and gives the core the messages of others.

One task runs the loop (loop.py): it gives the core the time and performs its Readys. Requests to other nodes are tasks
of sender.py. Blocking work (fsync, the quorum-state file) runs in the executor.

An error of the disk or of an invariant ends the driver and is reported to `on_fatal`: a failed fsync is never retried
(ATC'20). Only a full disk is waited for, in the middle of the Ready: to the quorum that is a slow disk, so a leader
that cannot write loses its lead to one that can. The driver decides nothing about consensus, and knows nothing of gRPC
or of what the records mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from random import Random
from typing import TypeVar

from penstock.clock import Clock
from penstock.errors import (
    InvariantViolation,
    KafkaStorageError,
    NetworkError,
    NotControllerError,
)
from penstock.types import NO_LEADER, EpochEndOffset, LeaderHint
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.driver.applier import Applier
from raft.driver.describe import contact_ms_ago, describe, quorum_silent_ms
from raft.driver.log_reads import LogReads
from raft.driver.loop import QuorumLoop
from raft.driver.notices import Notices
from raft.driver.performer import Performer
from raft.driver.protocols import (
    UNHEARD_QUORUM,
    NoRoomError,
    QuorumProbe,
    QuorumStateStore,
    QuorumTransport,
    RaftListener,
    RaftLog,
    Timed,
)
from raft.driver.room import Room
from raft.driver.sender import QuorumSender
from raft.driver.waiting_requests import WaitingRequests
from raft.messages import (
    Inbound,
    Request,
    RequestAbandoned,
    RequestReceived,
    Response,
    SnapshotsKept,
)
from raft.quorum_state import Forgotten
from raft.statistics import DriverStatistics, QuorumDescription
from raft.voter_changes import VoterChange
from raft.voters import VoterSet

_log = logging.getLogger(__name__)

FAREWELL_MS = 1_000
"""How long a leader that stops waits until the voters have heard of it."""

T = TypeVar("T")


class RaftDriver:
    """The quorum, as this node takes part in it."""

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        store: QuorumStateStore,
        transport: QuorumTransport,
        clock: Clock,
        random: Random,
        executor: Executor | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        timed: Timed = lambda work: work,
        probe: QuorumProbe = UNHEARD_QUORUM,
    ) -> None:
        """`timed` counts the event loop's time that the quorum's own work takes."""
        self.config = config
        self._timed = timed
        self._probe = probe
        self._log = log
        self._store = store
        self._clock = clock
        self._random = random
        self._on_fatal = on_fatal
        reads = LogReads(log, executor)
        self._applier = Applier(log, reads.read)
        self._loop: QuorumLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._waiting = WaitingRequests()
        self._notices = Notices(config.node_id, clock)
        self._room = Room(config.node_id, lambda: self._loop is not None and self._loop.is_stopping)
        self._sender = QuorumSender(config, transport, self._on_answer, probe)
        parts = (self._room, self._sender, self._waiting)
        self._performer = Performer(config.node_id, log, store, clock, executor, reads, *parts)

    def __repr__(self) -> str:
        return f"RaftDriver(node {self.config.node_id}, {self._loop or 'new'!r})"

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what was persisted and take part. Raises what the store and the log raise; the log is already open."""
        if self._loop is not None:
            raise InvariantViolation("the driver was started twice")
        stored = await self._performer.load()
        core = RaftCore(self.config, stored, self._log, self._random, self._clock.now_ms())
        parts = (self._applier, self._performer, self._notices)
        self._loop = QuorumLoop(core, self._log, self._clock, *parts, self._on_failed)
        self._main = asyncio.create_task(self._loop.run(), name=f"raft-{self.config.node_id}")

    async def stop(self) -> None:
        """Resign if leader and give the voters a moment to hear of it; then end every task."""
        loop = self._loop
        if loop is None or self._main is None:
            return
        if loop.core.leadership is not None and not loop.is_stopping:
            self._sender.expect_farewells(len(self.voters.others(self.config.node_id)))
            loop.resign()
            await self._sender.wait_farewells(FAREWELL_MS)
        loop.stop()
        await asyncio.shield(self._main)
        await self._sender.close()
        self._close("it was stopped")

    # -- what the node asks --------------------------------------------------------------------------------------------

    async def handle(self, request: Request) -> Response:
        """Answer another node. Errors of the protocol are in the response; NetworkError when this node is not up."""
        loop = self._running()
        if loop is None:
            raise NetworkError(f"node {self.config.node_id} does not take part in the quorum now")
        self._probe.quorum_handling(request)
        request_id, answer = self._waiting.add()
        try:
            loop.step(RequestReceived(request_id, request))
            response = await answer
            self._notices.note_answer(request, response)
            self._probe.quorum_answering(request, response)
            return response
        finally:
            if self._waiting.abandon(request_id) and not loop.is_stopping:
                loop.step(RequestAbandoned(request_id))

    def propose(self, values: Sequence[bytes]) -> asyncio.Future[int]:
        """Append `values` as one atomic batch; they get the offsets from `next_offset` on, in this very call.

        The future gives the last offset once it is committed and every listener has seen it. NotControllerError: raised
        here, nothing was written; in the future, leadership was lost and the outcome is unknown. KafkaStorageError:
        the disk is full, and nothing was written.
        """
        loop = self._leading()
        return self._committed(loop, loop.core.propose(values))

    def change_voters(self, change: VoterChange, asked_ms: int | None = None) -> asyncio.Future[int]:
        """Append the set of voters that this change makes; every node goes by it as soon as it has the record.
        `asked_ms` is the time at which somebody asked for it: a majority of the new set must have fetched since.

        The future is that of `propose`, and so are the errors. Raised here, too, nothing was written then: what
        `changed_voters` raises.
        """
        loop = self._leading()
        return self._committed(loop, loop.core.change_voters(change, self._clock.now_ms(), asked_ms))

    def forget_observer(self, replica_id: int) -> int:
        """Forgets, as the leader, an observer that has not fetched of late; the number of its disks that were known.
        NotControllerError where this node does not lead."""
        leadership = self._leading().core.leadership
        return 0 if leadership is None else leadership.forget_observer(replica_id, self._clock.now_ms())

    def subscribe(self, listener: RaftListener) -> None:
        """`listener` gets the committed log from its start, and news of the leader."""
        self._applier.subscribe(listener)
        if self._loop is not None:
            self._loop.wake()

    def keep_snapshots(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        """Keeps these durable snapshots from now on, oldest first. The log below all of them is cut off."""
        loop = self._running()
        if loop is not None:
            loop.step(SnapshotsKept(tuple(snapshot_ids)))

    @property
    def is_leader(self) -> bool:
        """True if this node leads and has delivered a record of its own epoch: it may act as the active controller."""
        return self._loop is not None and self._loop.is_leader

    @property
    def core(self) -> RaftCore | None:
        """The decisions, to look at; None before the start."""
        return self._loop.core if self._loop is not None else None

    @property
    def met_quorum(self) -> asyncio.Event:
        """Set once this node leads the quorum, or has had an answer of its leader."""
        return self._started().met_quorum

    @property
    def next_offset(self) -> int:
        """The offset that the next proposed value gets; exact until the caller awaits."""
        return self.core.log_end_offset if self.core is not None else self._log.log_end_offset

    def sent_end_besides(self, node_id: int, incarnation_id: str) -> int:
        """No process of that node but this one was sent a metadata record at this offset or behind it; where this node
        does not lead, that is known of none of the records."""
        leadership = self.core.leadership if self.core is not None else None
        return self.next_offset if leadership is None else leadership.sent_end_besides(node_id, incarnation_id)

    @property
    def leader_and_epoch(self) -> tuple[int, int]:
        """The leader as far as this node knows (-1: none), and the epoch."""
        loop = self._loop
        if loop is None:
            return NO_LEADER, 0
        return NO_LEADER if loop.is_stopping else loop.core.leader_id, loop.core.epoch

    @property
    def voters(self) -> VoterSet:
        """The voters as this node knows them now; the first ones before the start."""
        return self.core.voters if self.core is not None else self.config.first_voters

    @property
    def has_committed_voters(self) -> bool:
        """True if the set of voters that this node goes by is known to be committed."""
        return self.core is None or not self.core.statistics().uncommitted_voter_change

    @property
    def high_watermark(self) -> int:
        return self.core.high_watermark if self.core is not None else self._log.log_start_offset

    @property
    def has_forgotten(self) -> bool:
        """True if this voter lost its state and takes no part in elections."""
        return self.core is not None and self.core.forgotten is not Forgotten.NOTHING

    @property
    def no_room(self) -> NoRoomError | None:
        """The last error of a full disk under the quorum; None while nothing waits for it."""
        return self._room.error

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the driver, if one did."""
        return self._loop.failure if self._loop is not None else None

    def describe(self) -> QuorumDescription:
        """The quorum as this node sees it."""
        if self.core is None:
            return QuorumDescription(NO_LEADER, 0, self.high_watermark, (), ())
        return describe(self.core, self._clock.now_ms())

    def contact_ms_ago(self) -> int:
        """The time for which this node has not known that the quorum works; since its start if it never has."""
        return contact_ms_ago(self.core, self._clock.now_ms()) if self.core is not None else 0

    def quorum_silent_ms(self) -> int:
        """The time since the earliest moment at which another leader may have been elected, for the leader."""
        return quorum_silent_ms(self.core, self._clock.now_ms()) if self.core is not None else self._clock.now_ms()

    @property
    def is_started(self) -> bool:
        """True once there is a core whose figures can be counted."""
        return self._loop is not None

    def statistics(self) -> DriverStatistics:
        loop = self._started()
        return DriverStatistics(
            core=loop.core.statistics(),
            is_active=loop.is_leader,
            applied_offset=self._applier.applied_offset(loop.committed_offset),
            proposals_waiting=self._applier.proposals_waiting,
            requests_waiting=len(self._waiting),
            sends_in_flight=self._sender.in_flight,
            flushes=self._performer.flushes,
            election_state_saves=self._performer.saves,
            send_failures=self._sender.failures,
        )

    # -- small things --------------------------------------------------------------------------------------------------

    def _on_answer(self, inbound: Inbound) -> None:
        loop = self._running()
        if loop is not None:
            loop.step(inbound)

    def _on_failed(self, error: Exception) -> None:
        self._sender.cancel()
        self._close(str(error))
        if self._on_fatal is not None:
            self._on_fatal(error)

    def _close(self, why: str) -> None:
        if self.core is not None:
            self._applier.fail_uncommitted(-1, NO_LEADER, self.core.epoch)
            self._applier.announce(NO_LEADER, self.core.epoch, None)
        self._waiting.fail_all(NetworkError(f"node {self.config.node_id} left the quorum: {why}"))

    def _leading(self) -> QuorumLoop:
        """The loop, if something may be appended by it now."""
        loop = self._running()
        if loop is None or not loop.is_leader:
            leader_id, epoch = self.leader_and_epoch
            hint = None if leader_id == NO_LEADER else LeaderHint(leader_id, epoch)
            raise NotControllerError(f"node {self.config.node_id} is not the active controller", leader=hint)
        if self._room.error is not None:
            raise KafkaStorageError(f"the metadata log takes nothing now, nothing was written: {self._room.error}")
        return loop

    def _committed(self, loop: QuorumLoop, offset: int) -> asyncio.Future[int]:
        """The future of what was just appended up to that offset."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_note_seen)
        self._applier.expect(offset, future)
        loop.wake()
        return future

    def _running(self) -> QuorumLoop | None:
        return None if self._loop is None or self._loop.is_stopping else self._loop

    def _started(self) -> QuorumLoop:
        if self._loop is None:
            raise InvariantViolation("the driver was not started: it takes no part in the quorum")
        return self._loop


def _note_seen(future: asyncio.Future[int]) -> None:
    """A proposer that does not wait for its answer is not an error."""
    if not future.cancelled():
        future.exception()
