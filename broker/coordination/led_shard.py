"""One led partition of a coordinator's topic: asks its core, appends what the core writes, answers after the commit.

    LOADING ── the log's end ──► ACTIVE ── an append failed ──► LOADING (again, from the log)
       │ a damaged record          │
       ▼                           ▼
    FAILED ── the lead ends ──► CLOSED

Each request, timer and change of the metadata is one turn of the core, which decides at once on the newest state. The
records of all turns of one tick of the loop are one append. An answer leaves AFTER everything that was in the log when
it was decided is committed: its own records, and those that it may have seen. It leaves only while the broker holds its
lease (quorum/lead_lease.py). Without a lease another broker may lead: requests get NOT_COORDINATOR, reads too, and
timers wait. If the log may not be written (the ISR is too small), a turn that would write is refused before it has
changed anything, and timers wait.

Invariant: the core's state is what the log says, in the leader epoch of this lead. Where that is not certain, the core
is thrown away and the log loaded again. Not here: which partition holds an id
(state_topic.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic

from broker.coordination.commit_barrier import answer_all, answer_unless
from broker.coordination.loading import LOAD_AGAIN, LoadError
from broker.coordination.log_errors import RefusedWrites, not_appended, not_committed
from broker.coordination.record_log import Written
from broker.coordination.shard_log import ShardLog
from broker.coordination.shard_ports import Core, ShardPorts, ShardState
from broker.coordination.turn import Client, Ticket, Turn
from broker.coordination.wake_up import HELD_MS, ShardSteps, WakeUp
from broker.replication.hosting.role_news import Lead
from penstock.base_error import without_frames
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    UnknownServerError,
)
from penstock.record.markers import Marker
from penstock.tasks import watch

_log = logging.getLogger(__name__)

BUDGET_NS: Final = 4_000_000
"""The time for which timers that are due at once are taken; then the loop has a turn."""


class LedShard(Generic[Core]):
    """One led partition of a coordinator's topic, from the begin of a lead to its end. Used on the event loop."""

    def __init__(self, lead: Lead, ports: ShardPorts, make_core: Callable[[], Core]) -> None:
        self.lead, self._ports, self._make_core = lead, ports, make_core
        self.partition, self.key = lead.partition, lead.partition.topic_partition
        self.state = ShardState.LOADING
        self.core = make_core()
        self.failure = ""
        self._loading: asyncio.Task[None] | None = None
        self._failures = 0
        """Loads and appends that failed since the last one that did not."""
        self._turns: list[list[Written]] = []
        self._answers: list[tuple[Ticket, object]] = []
        self._is_ticking = False
        self.log = ShardLog(lead, ports)
        self._barrier = self.log.barrier
        self._wake = WakeUp(ports.clock.now_ms, self._woken)
        self._steps = ShardSteps(lambda: self._not_led() is None, lambda: self.log.refusal() is None, self._take_turn)
        self._changed: set[str] = set()
        self._deleted: set[str] = set()
        self._load()

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit(self, ticket: Ticket, request: object, client: Client) -> None:
        """Have the core decide. The ticket is called once with the answer or the error, now or later."""
        error = self._why_not()
        if error is not None:
            ticket(error)
        else:
            self._take_turn(lambda turn: self.core.handle(turn, ticket, request, client), ticket)

    @property
    def is_serving(self) -> bool:
        """Requests are taken now."""
        return self._why_not() is None

    def write_marker(self, ticket: Callable[[ApiError | None], None], marker: Marker, transaction_version: int) -> None:
        """A transaction of a producer has ended: append it, after all that was decided before, and tell the core.

        The log says whether it takes the marker, as at every partition; so it goes to the log first. The ticket is
        called once: it is committed, now or before, or the error."""
        if self._turns:
            self._tick()
        error = self._why_not()
        if error is not None:
            ticket(error)
            return
        try:
            is_new = self.log.append_marker(marker, transaction_version)
        except ApiError as refused:
            ticket(without_frames(refused))
            return
        try:
            if is_new:
                self.core.replay_marker(marker)
        except Exception as bug:
            self._failed_half_way(bug, (ticket,))
            return
        self._barrier.add([(ticket, None)])
        self._arm()

    def topics_changed(self, changed: frozenset[str], deleted: frozenset[str]) -> None:
        """Topics that this partition's state may name. A shard that loads looks at them when it is loaded."""
        if self.state not in (ShardState.FAILED, ShardState.CLOSED):
            if not self._changed:
                self._steps.add(self._tell_news)
            self._changed |= changed
            self._deleted |= deleted

    def _tell_news(self, turn: Turn) -> None:
        changed, deleted = frozenset(self._changed), frozenset(self._deleted)
        self._changed, self._deleted = set(), set()
        self.core.topics_changed(turn, changed, deleted)

    def _why_not(self) -> ApiError | None:
        """The error that requests get now, if they are not taken. A client stays with a coordinator that is loading;
        so it is told first where that one may be deposed."""
        error = self._not_led()
        return error if isinstance(error, NotCoordinatorError) else self.log.deposed() or error

    def _not_led(self) -> ApiError | None:
        """The error for which the core is not asked; None if it is."""
        if self.state is ShardState.LOADING:
            return CoordinatorLoadInProgressError(f"{self.key} is being loaded; ask again")
        if self.state is ShardState.FAILED:
            return CoordinatorNotAvailableError(self.failure)
        if self.state is ShardState.CLOSED or not self.log.is_led:
            return NotCoordinatorError(f"broker {self.partition.broker_id} does not lead {self.key} any more")
        return None

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _take_turn(self, decide: Callable[[Turn], None], ticket: Ticket | None = None) -> None:
        clock, refusal = self._ports.clock, self.log.refusal()
        state = self.core if refusal is None else RefusedWrites(refusal)
        now_ms, wall_ms, topics = clock.now_ms(), clock.wall_ms(), self._ports.topics
        turn = Turn(now_ms, wall_ms, topics, state, self._ports.new_id, must_take=self.log.must_take)
        watched = self.core.watched
        watched.look(now_ms, wall_ms)
        try:
            decide(turn)
        except Exception as error:
            if isinstance(error, ApiError) and not turn.records:
                if ticket is not None:
                    turn.answer(ticket, error.with_traceback(None))
            else:
                others = {one for one, _ in turn.answers}
                self._failed_half_way(error, others if ticket is None else others | {ticket})
                return
        if refusal is None and (mark := watched.mark(is_written=bool(turn.records))) is not None:
            self._turns.append([mark])  # BEFORE the records that are stamped in its last stretch
        if turn.records:
            self._turns.append(turn.records)
            self.log.waits(turn.records)
        self._answers += turn.answers
        if self._turns or self._answers:
            self._tick_soon()
        self._arm()

    def _failed_half_way(self, bug: Exception, tickets: Iterable[Ticket]) -> None:
        """A defect of the core: nobody knows what it has changed."""
        _log.error("%s: a decision failed half-way", self.key, exc_info=bug)
        error = UnknownServerError(f"{self.key}: {type(bug).__name__}: {bug}")
        answer_all([(ticket, error) for ticket in tickets])
        self._reload(bug)

    def _tick_soon(self) -> None:
        if not self._turns and self._barrier.is_reached:
            answers, self._answers = self._answers, []
            answer_unless(answers, self.log.deposed())
        elif not self._is_ticking:
            self._is_ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Append what the turns since the last tick have written; then their answers wait for the commit."""
        self._is_ticking = False
        if self.state is not ShardState.ACTIVE:
            return
        if not self.log.is_led:
            self.close()
            return
        turns, self._turns = self._turns, []
        answers, self._answers = self._answers, []
        if turns:
            end = self._barrier.end
            try:
                self.log.append(turns)
            except Exception as error:
                if not isinstance(error, ApiError):
                    _log.error("%s: appending failed", self.key, exc_info=error)
                why = not_appended(error) if self._barrier.end == end else not_committed(error)
                answer_all([(ticket, why) for ticket, _ in answers])
                self._reload(error)
                return
            self._failures = 0
        self._barrier.add(answers)

    # -- timers --------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self.state is ShardState.ACTIVE:
            self._wake.by(self.core.timers.next_ms)

    def _woken(self) -> None:
        if self._not_led() is not None:
            return
        clock = self._ports.clock
        if self.log.refusal() is not None:
            self._wake.by(clock.now_ms() + HELD_MS)
            return
        core, until_ns = self.core, clock.now_ns() + BUDGET_NS
        for action in core.timers.take_due(clock.now_ms()):
            self._take_turn(action)
            if self.core is not core or clock.now_ns() >= until_ns or self.log.refusal() is not None:
                break  # a timer that is taken and may not write would be lost
        self._arm()

    # -- load, throw away, close ---------------------------------------------------------------------------------------

    def _load(self, wait_ms: int = 0) -> None:
        self._loading = asyncio.create_task(self._loads(wait_ms), name=f"load-{self.key}")
        watch(self._loading, self._ports.on_fatal)

    async def _loads(self, wait_ms: int) -> None:
        while True:
            await asyncio.sleep(wait_ms / 1000)
            try:
                end = await self._ports.loader.load(self.partition, self.core)
                break
            except LoadError as error:
                self._fail(f"{error}; a newer release may be able to read it")
                return
            except LOAD_AGAIN as error:
                self._failures += 1
                wait_ms = self._ports.backoff.wait_ms(self._failures)
                _log.warning("%s was not loaded: %s; trying again in %d ms", self.key, error, wait_ms)
                self._drop_core()
        self._barrier.appended(end)
        core = self.core
        try:
            steps = [lambda turn, step=step: step(turn) if self.core is core else None for step in core.loaded()]
        except Exception as bug:
            self._fail(f"{self.key}: {bug!r}")
            return
        self._steps.add_first(steps)
        self.state = ShardState.ACTIVE
        self._steps.go_on()
        self._arm()

    def _fail(self, failure: str) -> None:
        self.state, self.failure = ShardState.FAILED, failure
        _log.error("the groups or transactions of %s have no coordinator: %s", self.key, failure)
        self._drop_core()

    def _drop_core(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The requests that wait in it, with their answer."""
        core, self.core = self.core, self._make_core()
        try:
            return core.unloaded()
        except Exception as bug:  # it failed half-way before
            _log.error("%s: requests that wait get no answer", self.key, exc_info=bug)
            return ()

    def _reload(self, why: Exception) -> None:
        """The core is ahead of the log, or nobody knows: load it again. Requests of which nothing is known to be
        written are told so."""
        self._failures = 1 if self.log.is_short else self._failures + 1
        wait_ms = self._ports.backoff.wait_ms(self._failures)
        _log.warning("%s is loaded again in %d ms: %s", self.key, wait_ms, why)
        self._give_up(CoordinatorNotAvailableError(f"{self.key} is loaded again: {why}"))
        self.state = ShardState.LOADING
        self._load(wait_ms)

    def close(self) -> None:
        """The lead is over, or the broker stops: every request that waits is answered."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._give_up(NotCoordinatorError(f"broker {self.partition.broker_id} does not lead {self.key} any more"))
        self._steps.clear()
        self._barrier.close()

    def _give_up(self, error: ApiError) -> None:
        self._wake.cancel()
        tickets = [ticket for ticket, _ in self._answers]
        self._turns, self._answers = [], []
        self.log.nothing_waits()
        answer_all([*((ticket, error) for ticket in tickets), *self._drop_core()])

    def __repr__(self) -> str:
        return f"LedShard({self.key}, epoch {self.lead.leader_epoch}, {self.state.name})"
