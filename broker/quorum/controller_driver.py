"""Runs the controller's decisions on the active controller: decide, propose, replay, answer on commit.

One decision at a time, and no wait between decision and proposal: so decisions are in the log in the order in which
they were made. The in-memory state is ahead of the commit. When leadership is lost it is thrown away, and the next
active controller begins from the committed image. Answers leave AFTER the commit. The feature levels of a new cluster
are its very first decision: requests wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker.quorum.features.node_features import heard_nodes
from broker.quorum.leader_change_log import leader_change_lines
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.stall_watch import StallWatch
from metadata.codec import encode_record
from metadata.controller.controller import Controller, ControllerStatistics
from metadata.controller.features import HeardNode
from metadata.controller.result import ControllerResult
from metadata.features import Finalized
from metadata.records import UserScramCredentialRecord
from penstock.clock import Clock
from penstock.errors import ApiError, InvalidRequestError, InvariantViolation, NotControllerError, RequestTimedOutError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import BY_REQUEST
from penstock.messages.feature_apis import UPDATE_FEATURES
from penstock.messages.nodes.brokers import (
    UnregisterBrokerResponse,
)
from penstock.messages.nodes.node_apis import ALLOCATE_PRODUCER_IDS, BROKER_HEARTBEAT, REGISTER_BROKER
from penstock.metric_fields import counter, measured
from penstock.tasks import watch
from penstock.types import LeaderHint
from raft.driver.driver import RaftDriver

_log = logging.getLogger(__name__)

TICK_MS_MAX = 500
STALL_LOGGED_MS = 1_000
NO_ROOM_ANSWER_MS = 5_000
"""The time after which a request that waits for a commit is answered with the full disk. Before, another voter may
lead."""
NO_ROOM_LOOK_S = 0.5


@measured
class ControllerDriverStatistics:
    """The work of this node as the active controller, summed over all its epochs as leader since its start."""

    leader_elections: int = counter(
        "penstock_leader_elections", "Leaders of partitions that this node elected, unclean ones counted."
    )
    unclean_elections: int = counter(
        "penstock_unclean_leader_elections",
        "Leaders that this node elected from outside the ISR: acked records may be lost.",
    )
    scheduled_elections: int = counter(
        "penstock_scheduled_leader_elections",
        "Leaderships that this node gave back to the preferred leaders by schedule.",
    )
    sessions_expired: int = counter(
        "penstock_broker_sessions_expired", "Brokers that this node fenced because no heartbeat came."
    )
    unclean_registrations: int = counter(
        "penstock_unclean_registrations", "Brokers that registered with this node after an unclean stop."
    )
    controller: ControllerStatistics | None
    """The controller's statistics as they are now; None while another node is the active one."""


class ControllerDriver:
    """A listener of the raft driver; active while this node leads the quorum."""

    def __init__(
        self,
        node_id: int,
        raft: RaftDriver,
        loader: MetadataLoader,
        make_controller: Callable[[Any, random.Random, int], Controller],
        clock: Clock,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
        on_committed: Callable[[float], None],
        first_users: Sequence[UserScramCredentialRecord] = (),
        first_levels: Mapping[str, int] | None = None,
    ) -> None:
        """`on_committed` is given the seconds from each proposal to its commit. `first_users` and `first_levels` are
        those that a new cluster begins with."""
        self._node_id = node_id
        self._raft = raft
        self._loader = loader
        self._make_controller = make_controller
        self._clock = clock
        self._on_fatal = on_fatal
        self._on_committed = on_committed
        self._random, self._first_users, self._first_levels = rng, first_users, first_levels or {}
        self._has_begun = asyncio.Event()
        """The first levels are committed, or there are none."""
        self._controller: Controller | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._last_proposal: asyncio.Future[int] | None = None
        self._began_at = -1
        """The metadata offset that the active controller began from."""
        self._leader_elections = self._unclean_elections = self._scheduled_elections = 0
        self._sessions_expired = self._unclean_registrations = 0

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """Activated with our own id AFTER the first commit in our epoch; everything else resigns."""
        if leader_id == self._node_id and self._controller is None:
            self._began_at = self._loader.image.offset
            _log.info("active controller in epoch %d, metadata offset %d", epoch, self._began_at)
            self._controller = self._make_controller(self._loader.image, self._random, self._clock.now_ms())
            self._begin(self._controller)
        elif leader_id != self._node_id and self._controller is not None:
            _log.info("no longer the active controller; epoch %d is led by %d", epoch, leader_id)
            self.resign()

    def resign(self) -> None:
        if self._controller is not None:
            self._unclean_registrations += self._controller.statistics().unclean_registrations
        self._controller = self._last_proposal = None
        self._has_begun.set()
        for task in self._tasks:
            task.cancel()
        self._tasks = ()

    def statistics(self) -> ControllerDriverStatistics:
        """May be called in any thread."""
        controller = self._controller
        now = controller.statistics() if controller is not None else None
        return ControllerDriverStatistics(
            leader_elections=self._leader_elections,
            unclean_elections=self._unclean_elections,
            scheduled_elections=self._scheduled_elections,
            sessions_expired=self._sessions_expired,
            unclean_registrations=self._unclean_registrations + (now.unclean_registrations if now is not None else 0),
            controller=now,
        )

    # -- requests ------------------------------------------------------------------------------------------------------

    async def handle(self, request: Any) -> Any:
        """Decide on one request; the answer comes after its records are committed."""
        controller = self._active()
        if not self._has_begun.is_set():
            await self._has_begun.wait()
            controller = self._active()
        api = BY_REQUEST.get(type(request))
        if api is None or api.kind not in (ApiKind.FORWARDED, ApiKind.CONTROLLER):
            raise InvalidRequestError(f"the controller does not know {type(request).__name__}")
        result = self._decided(controller, api, request, self._clock.now_ms())
        offset = await self._commit(controller, result)
        response = replace(result.response, metadata_offset=offset) if api.tells_offset else result.response
        if isinstance(response, UnregisterBrokerResponse) and response.error is None:
            _log.info("broker %d is forgotten: an operator has unregistered it", request.broker_id)
        return response

    @property
    def levels(self) -> Finalized:
        """The feature levels that records have finalized; on the active controller, committed or not."""
        return self._loader.image.levels if self._controller is None else self._controller.levels

    def check_is_active(self) -> None:
        """NotControllerError where this node is not the active controller."""
        self._active()

    def heard_nodes(self) -> tuple[HeardNode, ...]:
        """The voters, and all others that fetch the metadata, with what they support; known on the leader alone."""
        return heard_nodes(self._raft.describe(), self._node_id, self._raft.config.fetch_timeout_ms)

    def _active(self) -> Controller:
        if self._controller is None:
            leader_id, epoch = self._raft.leader_and_epoch
            raise NotControllerError(
                f"node {self._node_id} is not the active controller", leader=LeaderHint(leader_id, epoch)
            )
        return self._controller

    def _decided(self, controller: Controller, api: Api[Any, Any], request: Any, now_ms: int) -> ControllerResult[Any]:
        """The controller's decision. Four are made with what only the quorum knows."""
        if api is BROKER_HEARTBEAT:
            return controller.heartbeat(request, now_ms, self._loader.image.offset, self._raft.quorum_silent_ms())
        if api is ALLOCATE_PRODUCER_IDS:
            return controller.allocate_producer_ids(request, now_ms, self._raft.leader_and_epoch[1])
        if api is REGISTER_BROKER:
            unheard_from = self._raft.sent_end_besides(request.broker_id, request.incarnation_id)
            return controller.register_broker(request, now_ms, self._raft.next_offset, unheard_from)
        if api is UPDATE_FEATURES:
            return controller.update_features(request, self.heard_nodes())
        return controller.decide(request, now_ms)

    async def _commit(self, controller: Controller, result: ControllerResult[Any]) -> int:
        """Propose BEFORE the first await, so that decisions and log agree on the order; the last offset, once durable
        on a majority."""
        if not result.records:
            # What it found done may not be committed yet, so its answer waits too; or an earlier controller did it,
            # and then a client still has to wait for brokers that have not heard of it.
            return self._began_at if self._last_proposal is None else await self._wait_committed(self._last_proposal)
        controller.check_is_readable(result.records)
        base_offset, proposed_ns = self._raft.next_offset, self._clock.now_ns()
        committed = self._raft.propose([encode_record(record) for record in result.records])
        try:
            for index, record in enumerate(result.records):
                controller.replay(record, base_offset + index)
        except Exception as error:
            self._on_fatal(error)  # proposed, but not in the state: no decision may be made from it
            raise
        self._last_proposal = committed
        changes = controller.take_leader_changes()
        lines = leader_change_lines(changes, controller)
        last_offset = await self._wait_committed(committed)
        self._on_committed((self._clock.now_ns() - proposed_ns) / 1e9)
        if last_offset != base_offset + len(result.records) - 1:
            violation = InvariantViolation(f"decided at offset {base_offset}, but committed up to {last_offset}")
            self._on_fatal(violation)
            raise violation
        self._leader_elections += sum(change.after.has_leader for change in changes)
        self._unclean_elections += sum(change.is_unclean for change in changes)
        for line in lines:
            _log.log(line.level, line.text)
        return last_offset

    async def _wait_committed(self, committed: asyncio.Future[int]) -> int:
        """The last offset. RequestTimedOutError when it waits for room on the disk, and so the outcome is unknown."""
        full_since_ms: int | None = None
        while not committed.done():
            await asyncio.wait((committed,), timeout=NO_ROOM_LOOK_S)
            no_room, now_ms = self._raft.no_room, self._clock.now_ms()
            full_since_ms = None if no_room is None else now_ms if full_since_ms is None else full_since_ms
            if full_since_ms is not None and now_ms - full_since_ms >= NO_ROOM_ANSWER_MS and not committed.done():
                raise RequestTimedOutError(
                    f"the disk of the metadata log is full, so the outcome is unknown: {no_room}"
                )
        return committed.result()

    # -- time ----------------------------------------------------------------------------------------------------------

    def _begin(self, controller: Controller) -> None:
        stalls = StallWatch(self._clock)
        self._has_begun = asyncio.Event()
        if not self._first_levels:
            self._has_begun.set()

        def look() -> None:
            if stalled_ms := stalls.look():
                if stalled_ms >= STALL_LOGGED_MS:
                    _log.warning("the event loop stood still for %d ms: brokers get that time back", stalled_ms)
                controller.forgive_silence(stalled_ms, self._clock.now_ms())

        ticker = asyncio.create_task(self._tick(controller, look), name="controller-tick")
        self._tasks = ticker, asyncio.create_task(stalls.run(look), name="controller-stalls")
        for task in self._tasks:
            watch(task, self._on_fatal)

    async def _bootstrap(self, controller: Controller) -> None:
        if self._first_levels:
            await self._bootstrap_levels(controller)
        try:
            result = controller.bootstrap_users(self._first_users)
            if result.records:
                await self._commit(controller, result)
                _log.info("the cluster begins with users %s", ", ".join(result.response))
        except ApiError as error:
            _log.warning("the first users were not committed: %s", error)

    async def _bootstrap_levels(self, controller: Controller) -> None:
        try:
            result = controller.first_levels(self._first_levels, self.heard_nodes())
            if result.records:
                await self._commit(controller, result)
            for line in result.response:
                _log.info("%s", line)
        except ApiError as error:
            _log.warning("the first feature levels were not committed: %s", error)
        finally:
            self._has_begun.set()

    async def _tick(self, controller: Controller, look: Callable[[], None]) -> None:
        """Lets the controller notice the passing of time: brokers whose session ran out are fenced, and leaderships
        go back to the preferred leaders. `look` notices a stall BEFORE sessions are judged."""
        if self._first_users or self._first_levels:
            await self._bootstrap(controller)
        while self._controller is controller:
            look()
            now_ms = self._clock.now_ms()
            try:
                result = controller.tick(now_ms)
                fenced = list(result.response.fenced_broker_ids)
                if fenced:
                    _log.warning("fencing brokers %s", fenced)
                await self._commit(controller, result)
                self._sessions_expired += len(fenced)
                if given_back := result.response.preferred_elections:
                    self._scheduled_elections += given_back
                    _log.info("gave %d partitions back to their preferred leaders", given_back)
                if moves := result.response.replica_moves:
                    _log.info("moving a replica of each of %d partitions, to even the brokers", moves)
            except ApiError as error:
                _log.warning("a decision was not committed: %s", error)
            deadline_ms = controller.next_deadline_ms()
            wait_ms = TICK_MS_MAX if deadline_ms is None else min(TICK_MS_MAX, deadline_ms - self._clock.now_ms())
            await asyncio.sleep(max(10, wait_ms) / 1000)
