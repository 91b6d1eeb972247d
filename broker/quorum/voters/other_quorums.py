"""Asks the bootstrap servers whether the cluster has a quorum already, before an only voter begins one.

A controller that was formatted as the only voter elects itself and asks nobody. Formatted so by mistake, with the id of
a cluster that runs, it would begin a second quorum of the same cluster, and both would acknowledge. So it asks each
server of `controller.quorum.bootstrap.servers` once, before its first epoch, by an observer's first fetch. A server
that has been in any epoch knows a quorum, and the start is refused. A server that does not answer in time is taken for
one that is not there, because the first node of a cluster starts alone.

Two that begin in the same moment find no quorum at each other, and make two. Nor is a silent server a proof: a whole
cluster may start again while this disk is new. So a controller whose disk was formatted by `--first-start together`
begins only once every other server has answered that it knows no quorum; where one does, this disk becomes one that
joins. Not here: servers of another cluster (cluster_guard.py), and how a quorum begins
(broker/node/commands/initial_controllers.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.errors import ApiError, InconsistentClusterIdError, MetaPropertiesError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NO_LEADER, Endpoint
from raft.driver.protocols import QuorumTransport
from raft.messages import FetchMetadataRequest, FetchMetadataResponse
from raft.quorum_state import ElectionState
from raft.voters import VoterSet

_log = logging.getLogger(__name__)

ANSWER_MS: Final = 2_000
"""A server that runs answers within this time; so long the first start of an only voter waits for one that hangs."""
AGAIN_MS: Final = 1_000
"""The pause before servers that were silent are asked again."""


def is_only_beginner(first: VoterSet, node_id: int, stored: ElectionState | None, log_end_offset: int) -> bool:
    """True if this node is to begin a quorum by itself, and has not begun."""
    has_begun = log_end_offset > 0 or (stored is not None and stored.epoch > 0)
    return first.is_dynamic and first.ids == (node_id,) and not has_begun


@dataclass(frozen=True, slots=True)
class OtherQuorums:
    """The question of one node to the bootstrap servers, by the ids by which raft asks them."""

    transport: QuorumTransport
    servers: Mapping[int, Endpoint]
    cluster_id: str
    node_id: int
    directory_id: str
    join_instead: Callable[[], None] | None = None
    """Makes this disk one that joins. With it, a server that is silent is asked again until it answers."""

    async def require_none(self) -> None:
        """Returns once each server has answered, or, without `join_instead`, its time is up; MetaPropertiesError if one
        knows a quorum."""
        left = tuple(self.servers)
        while left:
            left = await self._ask_each(left)
            if self.join_instead is None:
                return
            if left:
                silent = ", ".join(str(self.servers[server]) for server in left)
                _log.warning("before this controller begins the cluster, each of these must answer: %s", silent)
                await asyncio.sleep(AGAIN_MS / 1000)

    async def _ask_each(self, servers: Sequence[int]) -> tuple[int, ...]:
        """The servers that have not answered; MetaPropertiesError."""
        answers = await asyncio.gather(*map(self._ask, servers))
        for server, answer in zip(servers, answers, strict=True):
            if answer is not None and answer.leader_epoch > 0:
                if self.join_instead is not None:
                    self.join_instead()  # BEFORE the refusal, so that the next start joins
                raise MetaPropertiesError(self._refusal(self.servers[server], answer))
        return tuple(server for server, answer in zip(servers, answers, strict=True) if answer is None)

    async def _ask(self, server: int) -> FetchMetadataResponse | None:
        request = FetchMetadataRequest(
            self.cluster_id, self.node_id, 0, 0, NO_EPOCH, 0, 0, replica_directory_id=self.directory_id
        )
        try:
            answer = await self.transport.send(server, request, ANSWER_MS)
        except ApiError as error:
            _log.info("%s says nothing of a quorum: %s", self.servers[server], error.message)
            return None
        if not isinstance(answer, FetchMetadataResponse) or answer.error_code == InconsistentClusterIdError.code:
            return None
        return answer

    def _refusal(self, at: Endpoint, answer: FetchMetadataResponse) -> str:
        led = f", led by controller {answer.leader_id}" if answer.leader_id != NO_LEADER else ""
        known = f"cluster {self.cluster_id} has a quorum already: {at} knows its epoch {answer.leader_epoch}{led}. This"
        if self.join_instead is not None:
            return (
                f"{known} controller's log dirs are new, so it has not begun a second one, and joins it: start it again"
            )
        return (
            f"{known} controller is formatted as the only voter and would begin a second one. Empty its log dirs, and"
            " format them with --join; or, if that quorum is given up, take its addresses out of"
            " controller.quorum.bootstrap.servers for this start"
        )
