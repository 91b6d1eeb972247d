"""Notices at a node's start that its configured voters belong to another cluster than its log dirs.

The cause is a mistaken `controller.quorum.voters`, or the log dirs of another cluster. The quorum then refuses every
message, and the node would wait for a leader for ever. The start is refused instead, once so many voters have answered
with another cluster id that the voters of its own cluster cannot be a majority. A single wrong voter does not stop a
node of the right cluster. After a majority has answered as expected, nothing is checked any more.

It is between raft and its transport to the other nodes. `node.py` ends the node. It judges the configuration, so it has
the configuration's first voters and asks for no later ones.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import InconsistentClusterIdError, MetaPropertiesError
from raft.driver.protocols import QuorumTransport
from raft.messages import Request, Response
from raft.voters import VoterSet


class ClusterGuard:
    """A `raft.driver.protocols.QuorumTransport` over another one."""

    def __init__(
        self,
        transport: QuorumTransport,
        node_id: int,
        cluster_id: str,
        first_voters: VoterSet,
        on_refused: Callable[[BaseException], None],
    ) -> None:
        self._transport = transport
        self._cluster_id = cluster_id
        self._first_voters = first_voters
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
        first = self._first_voters
        refused = not first.has_majority(set(first.ids) - self._foreign.keys())
        self._is_settled = refused or first.has_majority(self._ours)
        if refused:
            self._on_refused(self._refusal())

    def _refusal(self) -> MetaPropertiesError:
        first, foreign = self._first_voters, sorted(self._foreign.items())
        said = "; ".join(f"{first.endpoint(voter, CONTROLLER_LISTENER)} says: {what}" for voter, what in foreign)
        return MetaPropertiesError(
            f"this node's log dirs are of cluster {self._cluster_id}, but controller.quorum.voters leads to another"
            f" ({said}). Correct controller.quorum.voters, or give this node the log dirs of that cluster."
            " If it has never run, remove its log dirs and format them with --cluster-id"
        )

    def __repr__(self) -> str:
        return f"ClusterGuard({len(self._ours)} ours, {len(self._foreign)} foreign, settled={self._is_settled})"
