"""DescribeQuorum: forwarded to the leader of the quorum; only the leader knows every replica's log end.

Without a leader the answer is what this node knows by itself, and says so: an operator needs it just then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.apis.forwarding import ForwardedRequests
from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.network.request_channel import Request
from penstock.messages.admin_apis import DESCRIBE_QUORUM
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from penstock.messages.security.acls import Operation

LEADER_WAIT_MS = 2_000
"""The longest wait for the leader. A change of leader takes less, and a person waits for the answer."""


class DescribeQuorumApi:
    """Handles quorum descriptions."""

    def __init__(self, forwarded: ForwardedRequests, own_view: Callable[[], QuorumInfo]) -> None:
        self._forwarded = forwarded
        self._own_view = own_view

    def handle(self, request: Request, body: DescribeQuorumRequest) -> None:
        self._forwarded.ask(DESCRIBE_QUORUM, request, body, LEADER_WAIT_MS, self._own_view)


SERVED: Final = (
    Served(
        api=DESCRIBE_QUORUM,
        rule=of_cluster(Operation.DESCRIBE),
        make=lambda parts: DescribeQuorumApi(parts.forwarded, parts.own_quorum_view).handle,
    ),
)
