"""Keeps this controller's place among the voters of a dynamic quorum: it joins by itself, and tells its new address.

With `controller.quorum.auto.join.enable` an observer that the leader counts as caught up asks to become a voter. Where
a voter has its id and another directory id, that is its own former disk, and it has that one removed first (KIP-1186);
unless that voter still fetches, as far as a new leader can know: then two nodes were given one id by mistake, and the
voter stays. A voter whose address in the set is not the one that it advertises sends UpdateVoter (KIP-853). A voter
that was removed while this process ran stays an observer until the next start: so an operator's command holds, and two
nodes with one id do not remove each other for ever.

`address_change` and `join_step` decide, and `VoterUpkeep` asks, one request at a time, with a back-off after errors. It
begins at the first leader of a dynamic quorum; a static one has no such task. Not here: which change is possible
(`raft/voter_changes.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from broker.config.node_config import NodeConfig
from broker.quorum.controller_channel import CALL_TIMEOUT_MS, ControllerChannel
from broker.quorum.voter_requests import check_endpoints
from metadata.listeners import CONTROLLER_LISTENER
from penstock.addresses import is_loopback
from penstock.backoff import Backoff
from penstock.errors import ApiError, ConfigError, DuplicateVoterError, InvalidRequestError
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from penstock.messages.voters import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoterRequest,
)
from penstock.tasks import watch
from penstock.types import NO_LEADER, ListenerEndpoint
from raft.voters import VOTERS_MAX, Voter, VoterSet

_log = logging.getLogger(__name__)

LOOK_MS: Final = 1_000
"""The time between two looks at the own place."""
FAILED_MS_MAX: Final = 2_000
"""The longest wait after errors in a row."""


class KnownQuorum(Protocol):
    """The raft driver, as the upkeep reads it."""

    @property
    def voters(self) -> VoterSet: ...

    @property
    def leader_and_epoch(self) -> tuple[int, int]: ...

    @property
    def has_committed_voters(self) -> bool: ...


def own_voter(config: NodeConfig, directory_id: str) -> Voter:
    """The controller of this configuration as a voter; ConfigError if its address is of no use to others."""
    endpoints = (ListenerEndpoint(CONTROLLER_LISTENER, config.advertised_listeners[CONTROLLER_LISTENER]),)
    try:
        check_endpoints(config.node_id, endpoints)
    except InvalidRequestError as error:
        raise ConfigError(f"advertised.listeners: {error.message}") from None
    return Voter(config.node_id, directory_id, endpoints)


def address_change(own: Voter, voters: VoterSet) -> UpdateVoterRequest | None:
    """The request of a voter that is reached at another address than the set has.

    A loopback address does not replace another one: it is what a configuration says that advertises nothing, and other
    machines would lose the voter.
    """
    known = voters.find(own.voter_id)
    if known is None or not voters.names(own.voter_id, own.directory_id):
        return None
    there, here = known.endpoint(CONTROLLER_LISTENER), own.endpoint(CONTROLLER_LISTENER)
    if here is None or here == there:
        return None
    if there is not None and is_loopback(here.host) and not is_loopback(there.host):
        return None
    return UpdateVoterRequest(own.voter_id, own.directory_id or "", own.endpoints)


def join_step(
    own: Voter, found: QuorumInfo, recent_ms: int, led_ms: int
) -> AddVoterRequest | RemoveVoterRequest | None:
    """The next request of an observer that wants to be a voter, by what the leader knows; None: not now. `led_ms`: the
    time for which that leader has led. DuplicateVoterError where another process with its id is a voter, and fetched
    within `recent_ms`."""
    if not found.has_leader or not found.is_dynamic:
        return None
    caught_up_ms_ago = next(
        (
            one.last_caught_up_ms_ago
            for one in found.observers
            if (one.node_id, one.directory_id) == (own.voter_id, own.directory_id)
        ),
        0,
    )
    if not 0 < caught_up_ms_ago <= recent_ms:
        return None
    former = next((one for one in found.voters if one.node_id == own.voter_id), None)
    if former is not None and 0 <= former.last_fetch_ms_ago <= recent_ms:
        raise DuplicateVoterError(
            f"voter {own.voter_id} with directory id {former.directory_id} fetched {former.last_fetch_ms_ago} ms ago:"
            f" unless that was this node before its disk was replaced, two nodes have the id {own.voter_id}; give this"
            " one another"
        )
    if former is not None and former.last_fetch_ms_ago < 0 and led_ms <= recent_ms:
        return None  # the leader is new: a voter that lives has had no time to fetch from it
    if former is not None:
        return RemoveVoterRequest(own.voter_id, former.directory_id)
    if len(found.voters) >= VOTERS_MAX:
        return None
    return AddVoterRequest(own.voter_id, own.directory_id or "", own.endpoints)


class VoterUpkeep:
    """The task of one controller, from the first leader of a dynamic quorum on until `stop`."""

    def __init__(
        self,
        quorum: KnownQuorum,
        channel: ControllerChannel,
        own: Callable[[], Voter],
        random: Random,
        *,
        cluster_id: str,
        joins: bool,
        recent_ms: int,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`own` is asked once, in a dynamic quorum. `joins`: an observer becomes a voter by itself. A node counts as
        caught up if it was at most `recent_ms` ago."""
        self._quorum, self._channel, self._own = quorum, channel, own
        self._cluster_id, self._joins, self._recent_ms, self._on_fatal = cluster_id, joins, recent_ms, on_fatal
        self._backoff = Backoff(LOOK_MS, FAILED_MS_MAX, random)
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._has_voted = False
        """It was a voter in this life of the process."""
        self._lead, self._lead_since_s = (NO_LEADER, 0), 0.0
        """The leader and its epoch at the last look, and the loop's time at which they were first seen."""

    def leader_changed(self, leader_id: int) -> None:
        """There is a leader: the task begins, if it is to be one and has not begun."""
        begun = self._is_stopped or self._task is not None
        if leader_id == NO_LEADER or begun or not self._quorum.voters.is_dynamic:
            return
        try:
            own = self._own()
        except ConfigError as error:
            _log.warning("this controller cannot be a voter: %s", error)
            return
        self._task = asyncio.create_task(self._run(own), name="voter-upkeep")
        watch(self._task, self._on_fatal)

    async def look(self, own: Voter) -> None:
        """One look at the own place, and one request where something is to be changed. ApiError: look again later."""
        lead, now_s = self._quorum.leader_and_epoch, asyncio.get_running_loop().time()
        if lead != self._lead:
            self._lead, self._lead_since_s = lead, now_s
        if lead[0] == NO_LEADER:
            return
        wanted = await self._wanted(own)
        if wanted is None:
            return
        request = replace(wanted, cluster_id=self._cluster_id)
        answer: VoterChangeResponse = await self._channel.call(request, CALL_TIMEOUT_MS)
        if answer.error is not None:
            raise answer.error
        if isinstance(request, AddVoterRequest):
            self._has_voted = True
        _log.info("%s", _done(request))

    async def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def __repr__(self) -> str:
        return f"VoterUpkeep({'running' if self._task else 'not begun'}, joins: {self._joins})"

    async def _wanted(self, own: Voter) -> VoterRequest | None:
        voters = self._quorum.voters
        if voters.names(own.voter_id, own.directory_id):
            self._has_voted |= self._quorum.has_committed_voters
            return address_change(own, voters)
        if not self._joins or self._has_voted:
            return None
        found: QuorumInfo = await self._channel.call(DescribeQuorumRequest(), CALL_TIMEOUT_MS)
        is_seen = (found.leader_id, found.leader_epoch) == self._lead
        led_s = asyncio.get_running_loop().time() - self._lead_since_s if is_seen else 0
        return join_step(own, found, self._recent_ms, int(led_s * 1000))

    async def _run(self, own: Voter) -> None:
        failures = 0
        while True:
            await asyncio.sleep(self._backoff.wait_ms(failures + 1) / 1000)
            try:
                await self.look(own)
                failures = 0
            except ApiError as error:
                failures += 1
                _log.warning("this controller's place among the voters was not changed: %s", error)


def _done(request: VoterRequest) -> str:
    if isinstance(request, AddVoterRequest):
        return "this controller is a voter now"
    if isinstance(request, RemoveVoterRequest):
        return f"the voter on this controller's former disk {request.directory_id} was removed"
    return "the other voters have the new address of this controller"
