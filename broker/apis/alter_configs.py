"""AlterConfigs: forwarded to the active controller; answered once this node's own image holds the outcome.

So a client that has the answer finds the configuration changed on this node. The change is incremental (KIP-339): keys
that are not named keep their values. The controller decides what is acceptable (metadata/controller/configs.py).
"""

from __future__ import annotations

from broker.apis.forwarding import ForwardedRequests, bounded_timeout_ms, decided_and_applied
from broker.network.request_channel import Request
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.metadata_loader import MetadataLoader
from metadata.requests import AlterConfigsRequest


class AlterConfigsApi:
    """Handles requests to have configurations changed."""

    def __init__(self, channel: ControllerChannel, loader: MetadataLoader, forwarded: ForwardedRequests) -> None:
        self._channel = channel
        self._loader = loader
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[AlterConfigsRequest, int]) -> None:
        asked, timeout_ms = body
        answer = decided_and_applied(self._channel, self._loader, asked, bounded_timeout_ms(timeout_ms))
        self._forwarded.start(request, answer)
