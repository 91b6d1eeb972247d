"""ElectLeaders: forwarded to the active controller; answered once this node's own image holds the outcome (KIP-460)."""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import ElectLeadersRequest, ElectLeadersResponse
from penstock.errors import ElectionNotNeededError


class ElectLeadersApi:
    """Handles requests to have leaders elected."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[ElectLeadersRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, elected_by_an_earlier_attempt)


def elected_by_an_earlier_attempt(response: ElectLeadersResponse) -> ElectLeadersResponse:
    """In a retry, an election that is not needed means success: the first attempt made it, and its answer was lost."""
    partitions = tuple(
        replace(result, error=None) if isinstance(result.error, ElectionNotNeededError) else result
        for result in response.partitions
    )
    return replace(response, partitions=partitions)
