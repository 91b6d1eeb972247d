"""InitProducerId: an id of its own for a producer, in its first epoch; waits if this broker has none left (KIP-98).

A request with a transactional id goes to the coordinator of that id.
"""

from __future__ import annotations

from typing import Final

from broker.apis.api_parts import ApiParts
from broker.apis.coordinators import check_transactional_id_given
from broker.apis.router import Handle
from broker.apis.served import Served
from broker.authorization.rules.records import init_producer_id_rule
from broker.network.request_channel import Request
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

FIRST_PRODUCER_EPOCH = 0


class InitProducerIdApi:
    """Handles requests for a producer id."""

    def __init__(self, request_id: RequestProducerId) -> None:
        self._request_id = request_id

    def handle(self, request: Request, body: InitProducerIdRequest) -> None:
        def answer(found: int | ApiError) -> None:
            if isinstance(found, ApiError):
                request.fail(found)
            else:
                request.complete(InitProducerIdResponse(found, FIRST_PRODUCER_EPOCH))

        self._request_id(answer)


def _handler(parts: ApiParts) -> Handle:
    transactions, without_id = parts.transactions, InitProducerIdApi(parts.request_producer_id)

    def handle(request: Request, body: InitProducerIdRequest) -> None:
        if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
            raise InvalidRequestError(f"{request.api}: one that goes on names its id and its epoch, a new one neither")
        if body.transactional_id is None:
            without_id.handle(request, body)
        else:
            check_transactional_id_given(request.api, body.transactional_id)
            transactions.submit(request, body.transactional_id, body)

    return handle


SERVED: Final = (Served(api=INIT_PRODUCER_ID, rule=init_producer_id_rule, make=_handler),)
