"""The one task that gives the core its time and performs its Readys: tick when due, perform, deliver, sleep.

A Ready is performed in the order that ready.py states (performer.py does it), then committed batches are delivered;
then the task sleeps until the core's next deadline or until something arrives. Only this task touches the log. After
each step of the core, proposers and listeners hear what changed: a lead that was lost, another leader, a delivered
record of this node's own epoch (from then on it acts as leader). The first unexpected error ends the loop, and is kept.
What the node may ask is in driver.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.clock import Clock
from penstock.types import NO_EPOCH
from raft.core import RaftCore
from raft.driver.applier import Applier
from raft.driver.notices import Notices
from raft.driver.performer import Performer
from raft.driver.protocols import NoRoomError, RaftLog
from raft.messages import Inbound, SnapshotTaken
from raft.ready import Ready

_log = logging.getLogger(__name__)

SLEEP_MIN_MS = 1
"""A bound on how often the loop can turn without work, were a deadline ever wrong."""


class QuorumLoop:
    """The turns of one node's core, from its start until it stops or fails."""

    def __init__(
        self,
        core: RaftCore,
        log: RaftLog,
        clock: Clock,
        applier: Applier,
        performer: Performer,
        notices: Notices,
        on_failed: Callable[[Exception], None],
    ) -> None:
        """`on_failed` hears the error that ended the loop, once."""
        self.core = core
        self._log, self._clock = log, clock
        self._applier, self._performer, self._notices = applier, performer, notices
        self._on_failed = on_failed
        self._wake = asyncio.Event()
        self._led_epoch = NO_EPOCH
        self._active_epoch = NO_EPOCH
        self.met_quorum = asyncio.Event()
        """It leads the quorum, or has had an answer of its leader."""
        self.committed_offset = log.log_start_offset
        """The high watermark of the last performed Ready: what may be delivered."""
        self.is_stopping = False
        self.failure: Exception | None = None
        """The error that ended the loop, if one did."""
        self._notices.note_promises(core)

    def __repr__(self) -> str:
        how = "failed" if self.failure else "stopping" if self.is_stopping else "running"
        return f"QuorumLoop({how}, {self.core!r})"

    @property
    def running_core(self) -> RaftCore | None:
        """The core; None once the loop stops."""
        return None if self.is_stopping else self.core

    @property
    def is_leader(self) -> bool:
        """True if this node leads and has delivered a record of its own epoch: it may act as the active controller."""
        leadership = self.core.leadership
        return not self.is_stopping and leadership is not None and leadership.epoch == self._active_epoch

    async def run(self) -> None:
        try:
            while not self.is_stopping:
                await self._turn(self.core)
        except NoRoomError as error:  # while stopping: what was not done is as if the node had crashed here
            _log.error("node %d stops with a full disk under its metadata log: %s", self.core.config.node_id, error)
        except Exception as error:
            self._fail(error)

    def step(self, inbound: Inbound) -> None:
        """Something has happened; the core hears of it at once."""
        try:
            self.core.step(inbound, self._clock.now_ms())
            self._after_step()
        except Exception as error:
            self._fail(error)
        self.wake()

    def resign(self) -> None:
        self.core.resign(self._clock.now_ms())
        self._after_step()
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Stops the loop: no further turn begins."""
        self.is_stopping = True
        self.wake()

    async def _turn(self, core: RaftCore) -> None:
        """One round: time, one Ready, some delivery; or sleep."""
        if self._clock.now_ms() >= core.next_deadline_ms():
            core.tick(self._clock.now_ms())
            self._after_step()
        ready = core.ready()
        if ready is not None:
            await self._perform(core, ready)
            self._after_step()
        if self._applier.has_work(self.committed_offset):
            await self._applier.deliver_some(self.committed_offset)
            self._after_step()
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
            self.committed_offset = ready.committed_offset
        core.advance(self._log.flushed_offset)
        if core.leadership is not None or core.last_fetch_ms is not None:
            self.met_quorum.set()
        if ready.complete_snapshot is not None:
            voters = None if installed is None else installed.voters
            core.step(SnapshotTaken(ready.complete_snapshot, installed is not None, voters), self._clock.now_ms())
        if installed is not None:
            self._applier.install(installed)

    def _after_step(self) -> None:
        """The state may have changed: tell proposers and listeners."""
        core, leadership = self.core, self.core.leadership
        epoch = leadership.epoch if leadership is not None else NO_EPOCH
        if epoch != self._led_epoch:
            self._led_epoch = epoch
            self._applier.fail_uncommitted(core.high_watermark, core.leader_id, core.epoch)
        own_from = leadership.epoch_start_offset if leadership is not None else None
        if own_from is not None and self._applier.applied_offset(self.committed_offset) > own_from:
            self._active_epoch = epoch
        self._applier.announce(core.leader_id, core.epoch, own_from)
        self._notices.note_promises(core)
        self._notices.note_lost_acks(core)

    def _fail(self, error: Exception) -> None:
        """An error of the disk or of an invariant: take no further part. Earlier promises hold; none is added."""
        if self.failure is not None:
            return
        self.failure = error
        self.stop()
        self._on_failed(error)
