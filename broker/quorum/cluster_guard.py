"""Notices at a node's start that its configuration leads to another cluster than that of its log dirs.

The cause is a mistaken `controller.quorum.voters`, or the log dirs of another cluster. The quorum then refuses every
message, and the node would wait for a leader for ever. The start is refused instead, once the voters that have not
answered with another cluster id are no majority. A single wrong voter does not stop a node of the right cluster. After
a majority has answered as expected, nothing is checked any more. A node without configured voters is refused when each
of its bootstrap servers but itself is of another cluster; one that is right is enough.

It is between raft and its transport to the other nodes. `node.py` ends the node. It judges the configuration, so it has
the configuration's first voters and asks for no later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import InconsistentClusterIdError, MetaPropertiesError
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint
from raft.driver.protocols import QuorumTransport
from raft.messages import Request, Response
from raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class Configured:
    """The nodes of the quorum that a configuration names, by the ids by which raft asks them."""

    key: str
    endpoints: Mapping[int, Endpoint]
    needed: int
    """The least number of them that must be of this cluster."""

    @classmethod
    def voters(cls, voters: VoterSet) -> Configured:
        """The first voters: a majority of them must be of this cluster."""
        at = {voter: voters.endpoint(voter, CONTROLLER_LISTENER) for voter in voters.ids}
        named = {voter: endpoint for voter, endpoint in at.items() if endpoint is not None}
        return cls("controller.quorum.voters", named, voters.majority)

    @classmethod
    def servers(cls, servers: Mapping[int, Endpoint], own: Container[Endpoint] = ()) -> Configured:
        """The bootstrap servers: one of them must be of this cluster. The node's `own` addresses may be among them, and
        say nothing about that."""
        others = {server: at for server, at in servers.items() if at not in own}
        return cls("controller.quorum.bootstrap.servers", others, min(1, len(others)))


class ClusterGuard:
    """A `raft.driver.protocols.QuorumTransport` over another one."""

    def __init__(
        self,
        transport: QuorumTransport,
        node_id: int,
        cluster_id: str,
        configured: Configured,
        on_refused: Callable[[BaseException], None],
    ) -> None:
        self._transport = transport
        self._cluster_id = cluster_id
        self._configured = configured
        self._on_refused = on_refused
        self._ours = {node_id}
        self._foreign: dict[int, str] = {}
        self._is_settled = False

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        """Sends by the transport, and notes the cluster of the answer."""
        response = await self._transport.send(node_id, request, timeout_ms)
        if not self._is_settled:
            self._note(node_id, response)
        return response

    def _note(self, node_id: int, response: Response) -> None:
        if response.error_code == InconsistentClusterIdError.code:
            self._foreign[node_id] = response.error_message
            self._ours.discard(node_id)
        else:
            self._ours.add(node_id)
            self._foreign.pop(node_id, None)
        asked, needed = self._configured.endpoints.keys(), self._configured.needed
        refused = len(asked - self._foreign.keys()) < needed
        self._is_settled = refused or len(asked & self._ours) >= needed
        if refused:
            self._on_refused(self._refusal())

    def _refusal(self) -> MetaPropertiesError:
        key, endpoints = self._configured.key, self._configured.endpoints
        foreign = ((node, said) for node, said in sorted(self._foreign.items()) if node in endpoints)
        said = "; ".join(f"{endpoints[node]} says: {what}" for node, what in foreign)
        return MetaPropertiesError(
            f"this node's log dirs are of cluster {self._cluster_id}, but {key} leads to another"
            f" ({said}). Correct {key}, or give this node the log dirs of that cluster."
            " If it has never run, remove its log dirs and format them with --cluster-id"
        )

    def __repr__(self) -> str:
        return f"ClusterGuard({len(self._ours)} ours, {len(self._foreign)} foreign, settled={self._is_settled})"
