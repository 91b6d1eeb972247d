"""The one driver: gives the core messages and the time, performs its Readys, and offers the quorum to the node.

One task runs the loop: tick when due, take a Ready, perform it in the order that ready.py states, deliver committed
batches, then sleep until the core's next deadline or until something arrives. Only that task touches the log. Requests
to other nodes are tasks of sender.py. Blocking work (fsync, the quorum-state file) runs in the executor.

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
from raft.driver.describe import describe
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
    SnapshotTaken,
)
from raft.quorum_state import ElectionState, Forgotten
from raft.ready import Ready
from raft.statistics import DriverStatistics, QuorumDescription

_log = logging.getLogger(__name__)

FAREWELL_MS = 1_000
"""How long a leader that stops waits until the voters have heard of it."""
SLEEP_MIN_MS = 1
"""A bound on how often the loop can turn without work, were a deadline ever wrong."""

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
        self._applier = Applier(log)
        self._core: RaftCore | None = None
        self._main: asyncio.Task[None] | None = None
        self._waiting = WaitingRequests()
        self._wake = asyncio.Event()
        self._stopping = False
        self._failure: BaseException | None = None
        self._led_epoch = NO_LEADER
        self._active_epoch = NO_LEADER
        self._notices = Notices(config.node_id, clock)
        self._room = Room(config.node_id, lambda: self._stopping)
        self.met_quorum = asyncio.Event()
        """It leads the quorum, or has had an answer of its leader."""
        self._committed_offset = log.log_start_offset  # of the last performed Ready: what may be delivered
        self._sender = QuorumSender(config, transport, self._on_answer, probe)
        parts = (self._room, self._sender, self._waiting)
        self._performer = Performer(config.node_id, log, store, clock, executor, *parts)

    def __repr__(self) -> str:
        how = "failed" if self._failure else "stopping" if self._stopping else "running" if self._core else "new"
        return f"RaftDriver(node {self.config.node_id}, {how}, {self._core!r})"

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what was persisted and take part. Raises what the store and the log raise; the log is already open."""
        if self._core is not None:
            raise InvariantViolation("the driver was started twice")
        stored = await self._performer.blocking(self._store.load) or ElectionState()
        if self._log.flushed_offset < self._log.log_end_offset:
            # A crash of the process may have left records in the page cache; they must be durable BEFORE an ack.
            await self._performer.blocking(self._log.flush)
        if self._log.flushed_offset != self._log.log_end_offset:
            raise InvariantViolation(f"{self._log!r} is durable up to {self._log.flushed_offset} only, after a flush")
        self._core = RaftCore(self.config, stored, self._log, self._random, self._clock.now_ms())
        self._notices.standing(self._core)
        self._main = asyncio.create_task(self._run(self._core), name=f"raft-{self.config.node_id}")

    async def stop(self) -> None:
        """Resign if leader and give the voters a moment to hear of it; then end every task."""
        core = self._core
        if core is None or self._main is None:
            return
        if core.leadership is not None and self._failure is None and not self._stopping:
            self._sender.expect_farewells()
            core.resign(self._clock.now_ms())
            self._after_step(core)
            self._wake.set()
            await self._sender.wait_farewells(FAREWELL_MS)
        self._stopping = True
        self._wake.set()
        await asyncio.shield(self._main)
        await self._sender.close()
        self._close("it was stopped")

    # -- what the node asks --------------------------------------------------------------------------------------------

    async def handle(self, request: Request) -> Response:
        """Answer another node. Errors of the protocol are in the response; NetworkError when this node is not up."""
        core = self._running_core()
        if core is None:
            raise NetworkError(f"node {self.config.node_id} does not take part in the quorum now")
        self._probe.quorum_handling(request)
        request_id, answer = self._waiting.add()
        try:
            self._step(core, RequestReceived(request_id, request))
            response = await answer
            self._notices.answered(request, response)
            self._probe.quorum_answering(request, response)
            return response
        finally:
            if self._waiting.abandon(request_id) and self._running_core() is not None:
                self._step(core, RequestAbandoned(request_id))

    def propose(self, values: Sequence[bytes]) -> asyncio.Future[int]:
        """Append `values` as one atomic batch; they get the offsets from `next_offset` on, in this very call.

        The future gives the last offset once it is committed and every listener has seen it. NotControllerError: raised
        here, nothing was written; in the future, leadership was lost and the outcome is unknown. KafkaStorageError:
        the disk is full, and nothing was written.
        """
        core = self._running_core()
        if core is None or not self.is_leader:
            raise NotControllerError(f"node {self.config.node_id} is not the active controller", leader=self._hint())
        if self._room.error is not None:
            raise KafkaStorageError(f"the metadata log takes nothing now, nothing was written: {self._room.error}")
        last_offset = core.propose(values)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_note_seen)
        self._applier.expect(last_offset, future)
        self._wake.set()
        return future

    def subscribe(self, listener: RaftListener) -> None:
        """`listener` gets the committed log from its start, and news of the leader."""
        self._applier.subscribe(listener)
        self._wake.set()

    def keep_snapshots(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        """The durable snapshots that this node keeps from now on, oldest first. What is below all of them is cut from
        the log."""
        core = self._running_core()
        if core is not None:
            self._step(core, SnapshotsKept(tuple(snapshot_ids)))

    @property
    def is_leader(self) -> bool:
        """True if this node leads and has delivered a record of its own epoch: it may act as the active controller."""
        core = self._running_core()
        return core is not None and core.leadership is not None and core.leadership.epoch == self._active_epoch

    @property
    def core(self) -> RaftCore | None:
        """The decisions, to look at; None before the start."""
        return self._core

    @property
    def next_offset(self) -> int:
        """The offset that the next proposed value gets; exact until the caller awaits."""
        return self._core.log_end_offset if self._core is not None else self._log.log_end_offset

    def sent_end_besides(self, node_id: int, incarnation_id: str) -> int:
        """No process of that node but this one was sent a metadata record at this offset or behind it; where this node
        does not lead, that is known of none of the records."""
        leadership = self._core.leadership if self._core is not None else None
        return self.next_offset if leadership is None else leadership.sent_end_besides(node_id, incarnation_id)

    @property
    def leader_and_epoch(self) -> tuple[int, int]:
        """The leader as far as this node knows (-1: none), and the epoch."""
        core = self._running_core()
        return (core.leader_id, core.epoch) if core is not None else (NO_LEADER, self._core.epoch if self._core else 0)

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark if self._core is not None else self._log.log_start_offset

    @property
    def has_forgotten(self) -> bool:
        """True if this voter lost its state and takes no part in elections."""
        return self._core is not None and self._core.forgotten is not Forgotten.NOTHING

    @property
    def no_room(self) -> NoRoomError | None:
        """The last error of a full disk under the quorum; None while nothing waits for it."""
        return self._room.error

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the driver, if one did."""
        return self._failure

    def describe(self) -> QuorumDescription:
        """The quorum as this node sees it."""
        if self._core is None:
            return QuorumDescription(NO_LEADER, 0, self.high_watermark, (), ())
        return describe(self._core, self._clock.now_ms())

    def contact_ms_ago(self) -> int:
        """For how long this node has not known that the quorum works; since its start if it never has."""
        core = self._core
        if core is None or (core.leadership is not None and self.config.majority == 1):
            return 0
        return max(0, self._clock.now_ms() - core.statistics().last_contact_ms)

    @property
    def is_started(self) -> bool:
        """True once there is a core whose figures can be counted."""
        return self._core is not None

    def statistics(self) -> DriverStatistics:
        if self._core is None:
            raise InvariantViolation("the driver was not started: there is nothing to count")
        return DriverStatistics(
            self._core.statistics(),
            self.is_leader,
            self._applier.applied_offset(self._committed_offset),
            self._applier.proposals_waiting,
            len(self._waiting),
            self._sender.in_flight,
            self._performer.flushes,
            self._performer.saves,
            self._sender.failures,
        )

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self, core: RaftCore) -> None:
        try:
            while not self._stopping:
                await self._turn(core)
        except NoRoomError as error:  # while stopping: what was not done is as if the node had crashed here
            _log.error("node %d stops with a full disk under its metadata log: %s", self.config.node_id, error)
        except Exception as error:
            self._fail(error)

    async def _turn(self, core: RaftCore) -> None:
        """One round: time, one Ready, some delivery; or sleep."""
        if self._clock.now_ms() >= core.next_deadline_ms():
            core.tick(self._clock.now_ms())
            self._after_step(core)
        ready = core.ready()
        if ready is not None:
            await self._perform(core, ready)
            self._after_step(core)
        if self._applier.has_work(self._committed_offset):
            self._applier.deliver_some(self._committed_offset)
            self._after_step(core)
            await asyncio.sleep(0)  # a long replay must not starve the quorum's own messages
        elif ready is None:
            await self._sleep(core)

    async def _sleep(self, core: RaftCore) -> None:
        delay_ms = max(SLEEP_MIN_MS, core.next_deadline_ms() - self._clock.now_ms())
        timer = asyncio.get_running_loop().call_later(min(delay_ms, 3_600_000) / 1000, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _perform(self, core: RaftCore, ready: Ready) -> None:
        installed = await self._performer.perform(ready)
        if ready.committed_offset is not None:
            self._committed_offset = ready.committed_offset
        core.advance(self._log.flushed_offset)
        if core.leadership is not None or core.last_fetch_ms is not None:
            self.met_quorum.set()
        if ready.complete_snapshot is not None:
            core.step(SnapshotTaken(ready.complete_snapshot, installed is not None), self._clock.now_ms())
        if installed is not None:
            self._applier.install(installed)

    # -- small things --------------------------------------------------------------------------------------------------

    def _on_answer(self, inbound: Inbound) -> None:
        core = self._running_core()
        if core is not None:
            self._step(core, inbound)

    def _step(self, core: RaftCore, inbound: Inbound) -> None:
        try:
            core.step(inbound, self._clock.now_ms())
            self._after_step(core)
        except Exception as error:
            self._fail(error)
        self._wake.set()

    def _after_step(self, core: RaftCore) -> None:
        """The state may have changed: tell proposers and listeners."""
        leadership = core.leadership
        epoch = leadership.epoch if leadership is not None else NO_LEADER
        if epoch != self._led_epoch:
            self._led_epoch = epoch
            self._applier.fail_uncommitted(core.high_watermark, core.leader_id, core.epoch)
        own_from = leadership.epoch_start_offset if leadership is not None else None
        if own_from is not None and self._applier.applied_offset(self._committed_offset) > own_from:
            self._active_epoch = epoch
        self._applier.announce(core.leader_id, core.epoch, own_from)
        self._notices.standing(core)

    def _fail(self, error: Exception) -> None:
        """An error of the disk or of an invariant: take no further part. Earlier promises hold; none is added."""
        if self._failure is not None:
            return
        self._failure = error
        self._stopping = True
        self._wake.set()
        self._sender.cancel()
        self._close(str(error))
        if self._on_fatal is not None:
            self._on_fatal(error)

    def _close(self, why: str) -> None:
        if self._core is not None:
            self._applier.fail_uncommitted(-1, NO_LEADER, self._core.epoch)
            self._applier.announce(NO_LEADER, self._core.epoch, None)
        self._waiting.fail_all(NetworkError(f"node {self.config.node_id} left the quorum: {why}"))

    def _running_core(self) -> RaftCore | None:
        return None if self._stopping else self._core

    def _hint(self) -> LeaderHint | None:
        leader_id, epoch = self.leader_and_epoch
        return None if leader_id == NO_LEADER else LeaderHint(leader_id, epoch)


def _note_seen(future: asyncio.Future[int]) -> None:
    """A proposer that does not wait for its answer is not an error."""
    if not future.cancelled():
        future.exception()
