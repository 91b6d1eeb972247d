"""DescribeQuorum: forwarded to the leader of the quorum; only the leader knows every replica's log end."""

from __future__ import annotations

from broker.apis.forwarding import TIMEOUT_MS_DEFAULT, ForwardedRequests
from broker.network.request_channel import Request
from broker.quorum.controller_channel import ControllerChannel
from broker.requests import DescribeQuorumRequest


class DescribeQuorumApi:
    """Handles quorum descriptions."""

    def __init__(self, channel: ControllerChannel, forwarded: ForwardedRequests) -> None:
        self._channel = channel
        self._forwarded = forwarded

    def handle(self, request: Request, body: DescribeQuorumRequest) -> None:
        self._forwarded.start(request, self._channel.call(body, TIMEOUT_MS_DEFAULT))
