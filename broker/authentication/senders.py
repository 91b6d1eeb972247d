"""A node speaks only as itself: the sender that a request names is the node whose certificate its connection has.

Without this, the holder of one node's key could vote, fetch, or change the ISR in the name of every other node. The row
of an API says which of its fields names the sender (`penstock/messages/api.py`). Refusals are logged, ever more rarely
(refused_hosts.py). Not here: reading the certificate (`broker/grpc/callers.py`), and what a node may do.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from broker.authentication.refused_hosts import RefusedHosts
from penstock.certs.node_identity import NodeIdentity, parse
from penstock.errors import ClusterAuthorizationFailedError
from penstock.messages.api import Api
from penstock.types import Endpoint

_log = logging.getLogger(__name__)


class Senders:
    """The nodes that call at one listener between nodes of one cluster."""

    def __init__(self, listener: str, cluster_id: str) -> None:
        self._listener, self._cluster_id = listener, cluster_id
        self._refused = RefusedHosts()

    def certified(self, uris: Collection[str], peer: Endpoint) -> int:
        """The node of this cluster that a certificate with these URIs is of; ClusterAuthorizationFailedError unless
        there is exactly one."""
        named = {identity for uri in uris if (identity := parse(uri)) is not None}
        if len(named) == 1:
            identity = named.pop()
            if identity.cluster_id == self._cluster_id:
                return identity.node_id
            found = str(identity)
        else:
            found = f"several nodes ({', '.join(sorted(map(str, named)))})" if named else "no node"
        raise self._refusal(
            f"the listener {self._listener} is for nodes of cluster {self._cluster_id} only, and the certificate of "
            f"this connection is of {found}; a node's has the URI {NodeIdentity(self._cluster_id, 1).uri} (with its "
            "own id) among its names, as `penstock certs node` makes it; clients connect to BROKER",
            peer,
        )

    def check(self, api: Api[Any, Any], request: Any, node_id: int, peer: Endpoint) -> None:
        """ClusterAuthorizationFailedError if the request is in the name of another node than `node_id`."""
        sender = api.sender_of(request)
        if sender is not None and sender != node_id:
            raise self._refusal(
                f"{api.name} in the name of node {sender} came over a connection with the certificate of node "
                f"{node_id}: a node speaks only as itself; look whether two nodes have each other's certificate, or "
                "one has been stolen",
                peer,
            )

    def _refusal(self, text: str, peer: Endpoint) -> ClusterAuthorizationFailedError:
        if times := self._refused.note(peer.host):
            _log.warning("%s: refused %s (%d times so far): %s", self._listener, peer.host, times, text)
        return ClusterAuthorizationFailedError(text)

    def __repr__(self) -> str:
        return f"Senders({self._listener}, {self._refused!r})"
