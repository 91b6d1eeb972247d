"""DeleteTopics: forwarded to the active controller; answered once this node's own image holds the outcome.

So whoever is answered can ask this node for the topics that were deleted and find them so.
"""

from __future__ import annotations

import asyncio

from broker.apis.forwarding import ForwardedRequests, bounded_timeout_ms
from broker.controller_channel import ControllerChannel
from broker.metadata_loader import MetadataLoader
from broker.network.request_channel import Request
from metadata.requests import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.errors import RequestTimedOutError


class DeleteTopicsApi:
    """Handles requests to have topics deleted."""

    def __init__(self, channel: ControllerChannel, loader: MetadataLoader, forwarded: ForwardedRequests) -> None:
        self._channel = channel
        self._loader = loader
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[DeleteTopicsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.start(request, self._answer(asked, bounded_timeout_ms(timeout_ms)))

    async def _answer(self, asked: DeleteTopicsRequest, timeout_ms: int) -> DeleteTopicsResponse:
        response: DeleteTopicsResponse = await self._channel.call(asked, timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._loader.wait_for_offset(response.metadata_offset)
        except TimeoutError:
            raise RequestTimedOutError(
                f"committed at metadata offset {response.metadata_offset}, which has not reached this node yet"
            ) from None
        return response
