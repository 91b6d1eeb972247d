"""CreateTopics: forwarded to the active controller; answered once this node's own image holds the outcome.

So a client that has the answer finds the new topics on this node.
"""

from __future__ import annotations

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import CreateTopicsRequest


class CreateTopicsApi:
    """Handles requests to have topics created."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[CreateTopicsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms)
