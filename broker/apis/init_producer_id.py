"""InitProducerId: an id of its own for a producer, in its first epoch; waits if this broker has none left (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable

from broker.network.request_channel import Request
from penstock.errors import ApiError
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse

FIRST_PRODUCER_EPOCH = 0

RequestId = Callable[[Callable[[int | ApiError], None]], None]
"""Calls what it is given with an id or an error, now or later; see ProducerIdManager.request."""


class InitProducerIdApi:
    """Handles requests for a producer id."""

    def __init__(self, request_id: RequestId) -> None:
        self._request_id = request_id

    def handle(self, request: Request, body: InitProducerIdRequest) -> None:
        def answer(found: int | ApiError) -> None:
            if isinstance(found, ApiError):
                request.fail(found)
            else:
                request.complete(InitProducerIdResponse(found, FIRST_PRODUCER_EPOCH))

        self._request_id(answer)
