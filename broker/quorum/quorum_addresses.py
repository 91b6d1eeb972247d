"""Knows where the other controllers are reached while voters change (KIP-853): by the quorum's own records, by what
others say of the leader, and by the servers of the configuration.

Who does not have the newest records may not know the leader's address, or an old one. So an answer that names the
leader says its endpoints, and so does the leader when it tells the voters that it leads. What was said of the leader of
the newest epoch counts before the records; it is forgotten with the next epoch. A bootstrap server has no id that this
node knows: raft asks it by a negative one.

Among static voters nothing is said and nothing is learned: every node has all addresses in its configuration.

It is between raft and the wire, and decides nothing about consensus. Not here: connections (broker/grpc).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import FencedLeaderEpochError, NotLeaderOrFollowerError, UnknownLeaderEpochError
from penstock.types import NO_LEADER, Endpoint, ListenerEndpoint
from raft.driver.protocols import QuorumTransport
from raft.messages import (
    NO_ERROR,
    BeginQuorumEpochRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotResponse,
    Request,
    Response,
)
from raft.voters import VoterSet

FIRST_BOOTSTRAP_ID: Final = -2
"""The id by which raft asks the first bootstrap server; the next ones are below it. -1 is no node."""
ENDPOINTS_MAX: Final = 16
"""The most endpoints of one leader: what names more is not believed."""

_OF_OUR_QUORUM: Final = frozenset(
    (
        NO_ERROR,
        FencedLeaderEpochError.code,
        NotLeaderOrFollowerError.code,
        UnknownLeaderEpochError.code,
    )
)
"""The answers that say something of this quorum. A node of another cluster names a leader of its own."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def bootstrap_ids(servers: Sequence[Endpoint]) -> tuple[int, ...]:
    """The ids by which raft asks these servers."""
    return tuple(FIRST_BOOTSTRAP_ID - index for index in range(len(servers)))


class QuorumAddresses:
    """The addresses of one node's quorum."""

    def __init__(
        self,
        own: ListenerEndpoint | None,
        node_id: int,
        servers: Sequence[Endpoint] = (),
        *,
        voters: Callable[[], VoterSet],
    ) -> None:
        """`own`: where other nodes reach this one, if it has the controller role. `voters`: the present ones, as the
        quorum knows them."""
        self._own, self._node_id = own, node_id
        self.servers: Mapping[int, Endpoint] = dict(zip(bootstrap_ids(servers), servers, strict=True))
        """The bootstrap servers by the ids by which raft asks them."""
        self._leader: tuple[int, int] = (NO_LEADER, -1)
        self._leader_endpoints: tuple[ListenerEndpoint, ...] = ()
        self._voters = voters

    def __repr__(self) -> str:
        return f"QuorumAddresses({len(self.servers)} servers, leader {self._leader} at {self._leader_endpoints})"

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Where the node's controller is reached; None if nobody has said it."""
        if node_id in self.servers:
            return self.servers[node_id]
        if node_id == self._leader[0]:
            for at in self._leader_endpoints:
                if at.name == CONTROLLER_LISTENER:
                    return at.endpoint
        return self._voters().endpoint(node_id, CONTROLLER_LISTENER)

    def sending(self, transport: QuorumTransport) -> QuorumTransport:
        """A transport that says where this node is when it leads, and notes what answers say of the leader."""
        return _Sending(self, transport)

    def handling(self, handle: Handler) -> Handler:
        """A handler of requests that notes where a new leader is, and says in its answers where the leader is."""

        async def handled(request: Request) -> Response:
            if not isinstance(request, BeginQuorumEpochRequest):
                is_first = isinstance(request, FetchMetadataRequest) and not request.heard_ms
                return self.with_leader(await handle(request), is_first=is_first)
            before = self._leader, self._leader_endpoints
            self.note(request.leader_id, request.leader_epoch, request.leader_endpoints)  # BEFORE it is asked at once
            noted, response = (self._leader, self._leader_endpoints), await handle(request)
            if response.error_code and (self._leader, self._leader_endpoints) == noted:
                self._leader, self._leader_endpoints = before
            return self.with_leader(response)

        return handled

    def note(self, leader_id: int, epoch: int, endpoints: tuple[ListenerEndpoint, ...]) -> None:
        """Another node said where the leader of an epoch is."""
        if leader_id == NO_LEADER or leader_id == self._node_id or not 0 < len(endpoints) <= ENDPOINTS_MAX:
            return
        if epoch >= self._leader[1]:
            self._leader, self._leader_endpoints = (leader_id, epoch), endpoints

    def with_leader(self, response: Response, *, is_first: bool = False) -> Response:
        """The answer, with the endpoints of the leader that it names. Good answers to fetches come from the leader
        itself, so they need none, but the first one that a node hears of it: a node that noted the epoch before it
        ended knows no more than the bootstrap server that it has asked."""
        is_fetch = isinstance(response, FetchMetadataResponse | FetchSnapshotResponse)
        is_known = is_fetch and response.error_code == NO_ERROR and not is_first
        if is_known or response.leader_id == NO_LEADER:
            return response
        endpoints = self._known(response.leader_id)
        return replace(response, leader_endpoints=endpoints) if endpoints else response

    def said(self, request: Request) -> Request:
        """The request, with this node's endpoints if it says that it leads."""
        if not isinstance(request, BeginQuorumEpochRequest) or not self._voters().is_dynamic or self._own is None:
            return request
        return replace(request, leader_endpoints=(self._own,))

    def _known(self, node_id: int) -> tuple[ListenerEndpoint, ...]:
        voters = self._voters()
        if not voters.is_dynamic:
            return ()
        if node_id == self._node_id and self._own is not None:
            return (self._own,)
        if node_id == self._leader[0]:
            return self._leader_endpoints
        found = voters.find(node_id)
        return found.endpoints if found is not None else ()


class _Sending:
    """A `raft.driver.protocols.QuorumTransport` over another one."""

    def __init__(self, addresses: QuorumAddresses, transport: QuorumTransport) -> None:
        self._addresses, self._transport = addresses, transport

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        response = await self._transport.send(node_id, self._addresses.said(request), timeout_ms)
        if response.error_code in _OF_OUR_QUORUM:
            self._addresses.note(response.leader_id, response.leader_epoch, response.leader_endpoints)
        return response
