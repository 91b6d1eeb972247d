"""InitProducerId answers when there is an id, or with the error."""

from __future__ import annotations

from collections.abc import Callable

from broker.apis.init_producer_id import InitProducerIdApi
from broker.network.request_channel import Request
from penstock.errors import ApiError, RequestTimedOutError
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from tests.support.sinks import CALLER


class Sink:
    def response_ready(self, request: Request) -> None:
        """The answer is looked at in the request."""


def asked() -> tuple[Request, Callable[[int | ApiError], None]]:
    waiting: list[Callable[[int | ApiError], None]] = []
    request = Request("InitProducerId", None, Sink(), CALLER, lambda: 1)
    InitProducerIdApi(waiting.append).handle(request, InitProducerIdRequest())
    (answer,) = waiting
    assert not request.is_complete, "it waits for an id"
    return request, answer


def test_an_id_is_answered_in_its_first_epoch() -> None:
    request, answer = asked()
    answer(1_234)
    assert request.response == InitProducerIdResponse(1_234, 0) and request.error is None


def test_an_error_is_the_answer() -> None:
    request, answer = asked()
    answer(RequestTimedOutError("no block"))
    assert isinstance(request.error, RequestTimedOutError) and request.failures
