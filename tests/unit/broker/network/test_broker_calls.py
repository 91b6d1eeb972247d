"""Promises of the calls of brokers: another one is called, this one is asked without a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.network.broker_calls import BrokerCalls
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownServerError,
)
from penstock.messages.transactions.producers import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.support.machine import NOW_NS
from tests.support.virtual_time import run_virtual

ASKED, ANSWER = AddPartitionsToTxnRequest(()), AddPartitionsToTxnResponse(())


def asked(broker_id: int, handle: Callable[[Request], None]) -> Any:
    async def call_broker(to: int, body: Any, timeout_ms: int) -> Any:
        return to, body, timeout_ms

    ask = BrokerCalls(1, call_broker, handle, FailedRequests(pytest.fail).fail, NOW_NS)
    return run_virtual(ask(broker_id, ASKED, 5_000))


def test_another_broker_is_called() -> None:
    assert asked(2, lambda request: pytest.fail("not this one")) == (2, ASKED, 5_000)


def test_this_broker_is_asked_without_a_call() -> None:
    def handle(request: Request) -> None:
        assert (request.api, request.body) == ("AddPartitionsToTxn", ASKED)
        request.complete(ANSWER)

    assert asked(1, handle) is ANSWER


@pytest.mark.parametrize(
    ("raised", "error"), [(NotCoordinatorError("no"), NotCoordinatorError), (ValueError("bug"), UnknownServerError)]
)
@pytest.mark.parametrize("answers", [False, True])
def test_its_error_is_the_answer(raised: Exception, error: type[ApiError], answers: bool) -> None:
    def handle(request: Request) -> None:
        if answers and isinstance(raised, ApiError):
            request.fail(raised)
        else:
            raise raised

    with pytest.raises(error):
        asked(1, handle)


def test_a_call_of_this_broker_that_hangs_is_given_up() -> None:
    requests: list[Request] = []
    with pytest.raises(RequestTimedOutError):
        asked(1, requests.append)
    assert requests[0].is_abandoned
    requests[0].complete(ANSWER)


def test_what_brokers_do_not_ask_each_other_is_refused() -> None:
    ask = BrokerCalls(1, lambda *call: pytest.fail("not called"), pytest.fail, pytest.fail, NOW_NS)
    with pytest.raises(InvalidRequestError, match="no call of brokers for str"):
        run_virtual(ask(1, "anything", 1))
