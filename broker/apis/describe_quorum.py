"""DescribeQuorum: forwarded to the leader of the quorum; only the leader knows every replica's log end."""

from __future__ import annotations

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from broker.requests import DescribeQuorumRequest


class DescribeQuorumApi:
    """Handles quorum descriptions."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: DescribeQuorumRequest) -> None:
        self._forwarded.ask(request, body)
