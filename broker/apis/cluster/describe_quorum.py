"""DescribeQuorum: forwarded to the leader of the quorum; only the leader knows every replica's log end.

Without a leader the answer is what this node knows by itself, and says so: an operator needs it just then.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo

LEADER_WAIT_MS = 2_000
"""The longest wait for the leader. A change of leader takes less, and a person waits for the answer."""


class DescribeQuorumApi:
    """Handles quorum descriptions."""

    def __init__(self, forwarded: ForwardedRequests, own_view: Callable[[], QuorumInfo]) -> None:
        self._forwarded = forwarded
        self._own_view = own_view

    def handle(self, request: Request, body: DescribeQuorumRequest) -> None:
        self._forwarded.ask(request, body, LEADER_WAIT_MS, self._own_view)
