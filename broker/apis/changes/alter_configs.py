"""AlterConfigs: forwarded to the active controller; answered once this node's own image holds the outcome.

So a client that has the answer finds the configuration changed on this node. The change is incremental (KIP-339): keys
that are not named keep their values. The controller decides what is acceptable (metadata/controller/configuration/).
"""

from __future__ import annotations

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import AlterConfigsRequest


class AlterConfigsApi:
    """Handles requests to have configurations changed."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[AlterConfigsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms)
