"""UnregisterBroker: forwarded to the active controller; answered once this node's own image lacks the broker."""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.errors import BrokerIdNotRegisteredError


class UnregisterBrokerApi:
    """Handles requests to forget a broker."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[UnregisterBrokerRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, unregistered_by_an_earlier_attempt)


def unregistered_by_an_earlier_attempt(response: UnregisterBrokerResponse) -> UnregisterBrokerResponse:
    """In a retry, a broker that is not registered was forgotten by the first attempt, whose answer was lost."""
    return replace(response, error=None) if isinstance(response.error, BrokerIdNotRegisteredError) else response
