"""Takes the requests about feature levels, on the active controller: waits, asks the right part, and answers on commit.

A controller that leads since a moment ago has not heard yet what every node supports. So an update waits until each
voter and each registered broker has fetched once, or for the time in which one that lives does. Then the controller
decides; whoever has still not fetched hinders a raise.

`kraft.version` 1 makes the quorum dynamic, which the quorum itself decides (voter_requests.py) where no node hinders
it. Beside other updates it is made once those are known to be possible, and before them, because it is the one that may
have to wait. If a node goes away meanwhile, those are refused after it, and the answer says that it is made.

Not here: which level may be changed (metadata/controller/features.py), and what the nodes have said (node_features.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from broker.quorum.controller_channel import CALL_TIMEOUT_MS
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.features.node_features import features_info
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.voter_requests import VoterRequests
from metadata.controller.features import hindered
from metadata.features import KRAFT_VERSION, FeatureTable
from penstock.clock import Clock
from penstock.errors import ApiError, InvalidRequestError, InvalidUpdateVersionError, RequestTimedOutError
from penstock.messages.features import (
    FeaturesInfo,
    FeatureUpdate,
    FeatureUpdateResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.messages.voters import MakeQuorumDynamicRequest
from raft.driver.driver import RaftDriver

LOOK_MS: Final = 50
"""How often it is looked whether all nodes have fetched."""


class FeatureRequests:
    """The requests about features that this node is asked as the active controller. No state outlives a request."""

    def __init__(
        self,
        raft: RaftDriver,
        controller: ControllerDriver,
        voters: VoterRequests,
        loader: MetadataLoader,
        clock: Clock,
        table: FeatureTable,
    ) -> None:
        self._raft, self._controller, self._voters = raft, controller, voters
        self._loader, self._clock, self._table = loader, clock, table

    def describe(self) -> FeaturesInfo:
        """The features as the active controller knows them; NotControllerError elsewhere."""
        self._controller.check_is_active()
        nodes = self._controller.heard_nodes()
        return features_info(self._table, self._loader.image, self._raft.voters, nodes)

    async def update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        """Makes all updates, or none; NotControllerError where this node is not the active controller."""
        self._controller.check_is_active()
        if request.timeout_ms < 0:
            raise InvalidRequestError(f"timeout_ms is {request.timeout_ms}; it must not be negative")
        await self._heard(request.timeout_ms or CALL_TIMEOUT_MS)
        of_quorum = [update for update in request.updates if update.name == KRAFT_VERSION]
        if not of_quorum:
            return await self._decided(request, request.updates, validate_only=request.validate_only)
        if len(of_quorum) > 1:
            raise InvalidRequestError(f"{KRAFT_VERSION} is named twice in the request")
        return await self._with_quorum(request, of_quorum[0])

    async def _heard(self, timeout_ms: int) -> None:
        """Waits until every voter and every registered broker has fetched from this leader, or as long as one that
        lives needs for that."""
        until_ms = self._clock.now_ms() + min(timeout_ms // 2, self._raft.config.fetch_timeout_ms)
        while self._clock.now_ms() < until_ms and self._controller.is_active:
            nodes = self._controller.heard_nodes()
            heard = {node.node_id for node in nodes if node.last_heard_ms_ago >= 0}
            wanted = {node.node_id for node in nodes if node.is_voter} | self._loader.image.brokers.keys()
            if wanted <= heard:
                return
            await asyncio.sleep(LOOK_MS / 1000)

    async def _with_quorum(self, request: UpdateFeaturesRequest, update: FeatureUpdate) -> UpdateFeaturesResponse:
        """`kraft.version` among the updates."""
        level = int(self._raft.voters.is_dynamic)
        error, offset = _refusal(level, update), self._loader.image.offset
        others = tuple(one for one in request.updates if one is not update)
        checked = await self._decided(request, others, validate_only=True)
        is_raise, is_made = error is None and update.level > level, False
        if is_raise:
            brokers, nodes = self._loader.image.brokers, self._controller.heard_nodes()
            error, found = hindered(self._table, brokers, nodes, update)
            checked = replace(checked, hindrances=(*checked.hindrances, *found))
        if is_raise and error is None and checked.error is None and not request.validate_only:
            answer = await self._voters.handle(MakeQuorumDynamicRequest(timeout_ms=request.timeout_ms))
            error = None if answer.is_so_already else answer.error
            offset, is_made = answer.metadata_offset, error is None
        if error is not None or checked.error is not None or request.validate_only or not others:
            answered = replace(checked, metadata_offset=offset)
        else:
            answered = await self._decided(request, others, validate_only=False)
        own = FeatureUpdateResult(KRAFT_VERSION, level, error)
        return _made_alone(request, answered, own) if is_made and answered.error else _merged(request, answered, own)

    async def _decided(
        self, request: UpdateFeaturesRequest, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> UpdateFeaturesResponse:
        asked = replace(request, updates=tuple(updates), validate_only=validate_only)
        answer: UpdateFeaturesResponse = await self._controller.handle(asked)
        return answer

    def __repr__(self) -> str:
        return f"FeatureRequests({self._table!r})"


def _refusal(level: int, update: FeatureUpdate) -> ApiError | None:
    """The fault in a change of `kraft.version`, which is `level`."""
    if update.level == level or (level == 0 and update.level == 1):
        return None
    if update.level == 0:
        return InvalidUpdateVersionError(
            f"{KRAFT_VERSION} is 1: the voters are disks, and the quorum cannot become static again"
        )
    return InvalidUpdateVersionError(f"{KRAFT_VERSION} cannot be {update.level}: this release knows 0 and 1")


def _merged(
    request: UpdateFeaturesRequest, answered: UpdateFeaturesResponse, own: FeatureUpdateResult
) -> UpdateFeaturesResponse:
    """The answer with the result of `kraft.version` in its place."""
    first = answered.error or own.error
    if first is not None:
        beside = _beside(own.error)
        results = tuple(replace(one, error=one.error or beside) for one in answered.results)
        answered = replace(answered, error=first, results=results)
        own = replace(own, error=own.error or _beside(None))
    return replace(answered, results=_in_order(request, answered, own))


def _made_alone(
    request: UpdateFeaturesRequest, answered: UpdateFeaturesResponse, own: FeatureUpdateResult
) -> UpdateFeaturesResponse:
    """The answer that `kraft.version` is made, and the others, which were possible just before, are refused."""
    why = answered.error.message if answered.error is not None else ""
    error = InvalidUpdateVersionError(f"{KRAFT_VERSION} is 1 now, and nothing else was changed: {why}")
    return replace(answered, error=error, results=_in_order(request, answered, own))


def _in_order(
    request: UpdateFeaturesRequest, answered: UpdateFeaturesResponse, own: FeatureUpdateResult
) -> tuple[FeatureUpdateResult, ...]:
    results = {**{one.name: one for one in answered.results}, KRAFT_VERSION: own}
    return tuple(results[update.name] for update in request.updates if update.name in results)


def _beside(error: ApiError | None) -> ApiError:
    message = "it was not changed, because another update of the request is refused"
    if isinstance(error, RequestTimedOutError):
        return RequestTimedOutError(message)
    return InvalidUpdateVersionError(message)
