"""The identity of a node in its certificate: two of the certificate's names (subjectAltName).

    penstock://<cluster id>/node/<node id>          a URI: a node that connects is told by it
    node-<node id>.<cluster id>.penstock            a DNS name, in small letters: a node that is connected to is

The second one says no more; it is there because gRPC's library looks for names of that kind alone. Which CA may vouch
for them is the truststore's matter. Not here: reading certificates (broker/tls/), and what a node may say in its own
name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NODE_DOMAIN: Final = "penstock"
NODE_ID_MAX: Final = 2**31 - 1
_CLUSTER_ID: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{21}"
_URI: Final = re.compile(rf"penstock://({_CLUSTER_ID})/node/(0|[1-9][0-9]{{0,9}})")


class NodeIdentity(NamedTuple):
    """One node of one cluster."""

    cluster_id: str
    node_id: int

    @property
    def uri(self) -> str:
        return f"penstock://{self.cluster_id}/node/{self.node_id}"

    @property
    def dns_name(self) -> str:
        return f"node-{self.node_id}.{self.cluster_id.lower()}.{NODE_DOMAIN}"

    def __str__(self) -> str:
        return f"node {self.node_id} of cluster {self.cluster_id}"


def parse(uri: str) -> NodeIdentity | None:
    """The node that the URI names; None if it is no such URI."""
    match = _URI.fullmatch(uri)
    if match is None or int(match[2]) > NODE_ID_MAX:
        return None
    return NodeIdentity(match[1], int(match[2]))


def is_cluster_id(text: str) -> bool:
    """The text has the form of an id that `penstock node format` makes or takes."""
    return re.fullmatch(_CLUSTER_ID, text) is not None
