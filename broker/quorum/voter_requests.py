"""Takes the requests that change the quorum's voters, on the quorum's leader: checks, waits, and answers on commit.

The core says at once whether a change is possible now. Where it says "ask again" (a newcomer that catches up, another
change under way), this asks it again until the time of the request is nearly up, and then gives the core's own sentence
to the caller. Every other refusal is passed on as it is. The answer leaves AFTER the record with the new voters is
committed, unless the request wants it when that is in the leader's log.

A request whose first answer was lost may find its change done. The answer says so (`is_so_already`) once what it found
is committed, and a client that repeated the request reads that as success (`penstock/messages/repetitions.py`).

Not here: which change is possible (`raft/voter_changes.py`), how a newcomer is asked who it is (newcomers.py), and who
may ask for a change (broker/authorization/).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from broker.quorum.controller_channel import CALL_TIMEOUT_MS
from metadata.listeners import CONTROLLER_LISTENER, is_listener_name, survives_a_record
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    NotControllerError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.ids import is_id
from penstock.messages.voter_apis import ENDPOINTS_MAX
from penstock.messages.voters import (
    AddVoterRequest,
    MakeQuorumDynamicRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoterRequest,
)
from penstock.types import NO_LEADER, LeaderHint, ListenerEndpoint
from raft.driver.driver import RaftDriver
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter, UpdateVoter, VoterChange
from raft.voters import Voter

_log = logging.getLogger(__name__)

RETRY_MS: Final = 50
RETRY_MS_MAX: Final = 500
"""The waits before the core is asked again. A newcomer fetches several times in such a time."""
ANSWER_MS: Final = 500
"""A request is answered this long before its time is up, so that the answer arrives; or a quarter of its time before
that, if that is less."""
TIMEOUT_MS_MAX: Final = 600_000
WAITING_MAX: Final = 100
"""The most changes that wait here at once. One is made at a time, so that others would only time out."""
VOTER_ID_MAX: Final = 2**31 - 1
HOST_CHARS_MAX: Final = 255
_PORTS: Final = range(1, 65_536)

CheckVoter = Callable[[Voter, int], Awaitable[None]]
"""Asks the voter that is to be added, within a time in milliseconds."""


UnfitFor = Callable[[str], str]
"""Why a node that supports these ranges of feature levels must not vote; "" if it may."""


async def nobody_is_asked(voter: Voter, timeout_ms: int) -> None:
    """Believes each address, where there is no network."""


def fit(supports: str) -> str:
    """Lets every node vote, where no level is finalized."""
    return ""


class VoterRequests:
    """The changes of voters that this node is asked for. No state outlives a request."""

    def __init__(
        self,
        raft: RaftDriver,
        cluster_id: str,
        clock: Clock,
        random: Random,
        check: CheckVoter = nobody_is_asked,
        unfit_for: UnfitFor = fit,
    ) -> None:
        """`check` asks a controller that is to be added, at its address, whether it is that one. `unfit_for` judges
        what it supports, as its last fetch said."""
        self._unfit_for = unfit_for
        self._raft, self._cluster_id, self._clock, self._check = raft, cluster_id, clock, check
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._waiting = 0

    async def handle(self, request: VoterRequest) -> VoterChangeResponse:
        """The answer to a request; NotControllerError where this node does not lead the quorum."""
        if not self._raft.is_leader:
            leader_id, epoch = self._raft.leader_and_epoch
            hint = None if leader_id == NO_LEADER else LeaderHint(leader_id, epoch)
            raise NotControllerError("this node does not lead the quorum", leader=hint)
        deadline_ms = self._clock.now_ms() + _wait_ms(request.timeout_ms)
        self._waiting += 1
        try:
            return await self._changed(request, self._checked(request), deadline_ms)
        except NotControllerError:
            raise
        except ApiError as error:
            return VoterChangeResponse(error)
        finally:
            self._waiting -= 1

    def __repr__(self) -> str:
        return f"VoterRequests({self._waiting} waiting, {self._raft!r})"

    def _checked(self, request: VoterRequest) -> VoterChange:
        """The change that is asked for, if there is room for it, and each field makes sense by itself."""
        if self._waiting > WAITING_MAX:
            raise ResourceExhaustedError(f"{WAITING_MAX} changes of the voters wait already; try again later")
        is_of_a_node = isinstance(request, UpdateVoterRequest)
        if request.cluster_id != self._cluster_id and (request.cluster_id or is_of_a_node):
            raise InconsistentClusterIdError(
                f"the request is for cluster {request.cluster_id[:64]!r}, and this is {self._cluster_id}"
            )
        if request.timeout_ms < 0:
            raise InvalidRequestError(f"timeout_ms is {request.timeout_ms}; it must not be negative")
        if isinstance(request, MakeQuorumDynamicRequest):
            return NameDirectories()
        check_voter(request.voter_id, request.directory_id)
        if isinstance(request, RemoveVoterRequest):
            return RemoveVoter(request.voter_id, request.directory_id)
        check_endpoints(request.voter_id, request.endpoints)
        voter = Voter(request.voter_id, request.directory_id, request.endpoints)
        return UpdateVoter(voter) if isinstance(request, UpdateVoterRequest) else AddVoter(voter)

    async def _changed(self, request: VoterRequest, change: VoterChange, deadline_ms: int) -> VoterChangeResponse:
        committed = await self._appended(change, deadline_ms)
        if isinstance(committed, VoterChangeResponse):
            return committed
        _log.info("%s: the voters are %s from now on", _text(change), list(self._raft.voters.ids))
        if isinstance(request, AddVoterRequest) and request.ack_when_appended:
            return VoterChangeResponse()
        offset = self._raft.next_offset - 1
        await asyncio.wait((committed,), timeout=max(0, deadline_ms - self._clock.now_ms()) / 1000)
        if not committed.done():
            raise RequestTimedOutError(
                f"the record with the new voters is at offset {offset} of the metadata log, and waits for a majority of"
                " them: the outcome is unknown; see `penstock quorum describe`"
            )
        return VoterChangeResponse(metadata_offset=committed.result())

    async def _appended(self, change: VoterChange, deadline_ms: int) -> asyncio.Future[int] | VoterChangeResponse:
        """The future of the commit, once the core has taken the change; or the refusal."""
        failures, is_checked = 0, not isinstance(change, AddVoter | UpdateVoter)
        asked_ms = self._clock.now_ms()
        while True:
            try:
                if isinstance(change, AddVoter | UpdateVoter) and not is_checked and self._is_known(change):
                    await self._check(change.voter, max(1, deadline_ms - self._clock.now_ms()))
                    is_checked = True
                if isinstance(change, AddVoter):
                    self._check_levels(change.voter)
                return self._raft.change_voters(change, asked_ms)
            except RequestTimedOutError as error:
                failures += 1
                if not await self._slept(failures, deadline_ms):
                    raise error
            except UnsupportedVersionError as error:
                raise UnsupportedVersionError(f"{error.message} (`penstock quorum make-dynamic`)") from None
            except (DuplicateVoterError, VoterNotFoundError, InvalidRequestError) as error:
                return await self._refused(change, error, deadline_ms)

    def _check_levels(self, voter: Voter) -> None:
        """InvalidRequestError for an observer that does not know a finalized level: it would stop at its record."""
        for one in self._raft.describe().observers:
            if (one.replica_id, one.directory_id) == (voter.voter_id, voter.directory_id):
                why = self._unfit_for(one.supports)
                if why:
                    raise InvalidRequestError(f"controller {voter.voter_id} cannot vote: {why}")

    def _is_known(self, change: AddVoter | UpdateVoter) -> bool:
        """True of an observer that is to be added, and of another voter that has moved: this node need not ask itself,
        and all others the core refuses, with its own reason."""
        voter = change.voter
        if isinstance(change, UpdateVoter):
            is_other = voter.voter_id != self._raft.config.node_id
            return is_other and self._raft.voters.names(voter.voter_id, voter.directory_id)
        observers = self._raft.describe().observers
        return any((one.replica_id, one.directory_id) == (voter.voter_id, voter.directory_id) for one in observers)

    async def _refused(self, change: VoterChange, error: ApiError, deadline_ms: int) -> VoterChangeResponse:
        """A refusal. If it says that the voters are already as the request wants them, it waits until that is
        committed."""
        if not self._is_so_already(change, error):
            return VoterChangeResponse(error)
        end_offset, looks = self._raft.next_offset, 0
        while self._raft.high_watermark < end_offset:
            looks += 1
            if not await self._slept(looks, deadline_ms):
                raise RequestTimedOutError(f"{error.message}; but that is not committed yet: ask again")
            if not self._raft.is_leader:
                raise NotControllerError("the leader of the quorum changed meanwhile")
        return VoterChangeResponse(error, end_offset - 1, is_so_already=True)

    def _is_so_already(self, change: VoterChange, error: ApiError) -> bool:
        voters = self._raft.voters
        match change, error:
            case AddVoter(voter), DuplicateVoterError():
                return voters.names(voter.voter_id, voter.directory_id)
            case RemoveVoter(), VoterNotFoundError():
                return True
            case NameDirectories(), InvalidRequestError():
                return voters.is_dynamic
        return False

    async def _slept(self, failures: int, deadline_ms: int) -> bool:
        """Waits; False, and at once, where the time would be up."""
        wait_ms = self._backoff.wait_ms(failures)
        if self._clock.now_ms() + wait_ms >= deadline_ms:
            return False
        await asyncio.sleep(wait_ms / 1000)
        return True


def check_voter(voter_id: int, directory_id: str) -> None:
    """InvalidRequestError unless a node may have this id, and a log dir that one."""
    if not 0 <= voter_id <= VOTER_ID_MAX:
        raise InvalidRequestError(f"voter id {voter_id} is not from 0 to {VOTER_ID_MAX}")
    if not is_id(directory_id):
        raise InvalidRequestError(
            f"directory id {directory_id[:64]!r} of voter {voter_id} is none: it has 22 characters, and stands as"
            " directory.id in meta.properties of the node's metadata log dir"
        )


def check_endpoints(voter_id: int, endpoints: tuple[ListenerEndpoint, ...]) -> None:
    """InvalidRequestError unless other nodes could connect to a voter at each, and one is CONTROLLER."""
    names = [each.name for each in endpoints]
    if CONTROLLER_LISTENER not in names:
        raise InvalidRequestError(
            f"voter {voter_id} has no address of a listener {CONTROLLER_LISTENER}; other nodes reach it by that alone"
        )
    if len(names) > ENDPOINTS_MAX or len(set(names)) < len(names):
        raise InvalidRequestError(
            f"voter {voter_id} has {len(names)} listeners; at most {ENDPOINTS_MAX} are possible, each with a name of"
            " its own"
        )
    for each in endpoints:
        if not is_listener_name(each.name):
            raise InvalidRequestError(
                f"voter {voter_id}: {each.name[:64]!r} is no name of a listener: capitals, digits and underscores"
            )
        if each.endpoint.port not in _PORTS:
            raise InvalidRequestError(
                f"voter {voter_id}: port {each.endpoint.port} of {each.name} is not from 1 to 65535"
            )
        if len(each.endpoint.host) > HOST_CHARS_MAX or each.endpoint.is_every_address or not survives_a_record(each):
            raise InvalidRequestError(
                f"voter {voter_id}: nobody can connect to host {each.endpoint.host[:64]!r} of {each.name}; give the"
                " address by which other nodes reach it"
            )


def _wait_ms(timeout_ms: int) -> int:
    """The time for which a request may wait here, of the time that its caller waits."""
    whole_ms = min(timeout_ms or CALL_TIMEOUT_MS, TIMEOUT_MS_MAX)
    return whole_ms - min(ANSWER_MS, whole_ms // 4)


def _text(change: VoterChange) -> str:
    match change:
        case AddVoter(voter):
            return f"voter {voter.voter_id} with directory id {voter.directory_id} was added"
        case RemoveVoter(voter_id, directory_id):
            return f"voter {voter_id} with directory id {directory_id} was removed"
        case UpdateVoter(voter):
            return f"voter {voter.voter_id} is reached at {', '.join(map(str, voter.endpoints))}"
        case NameDirectories():
            return "the quorum is dynamic"
