"""Promises of a forwarded request: what its task raises is answered, and judged, as in any other handler."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from broker.apis.forwarding import APPLIED_S, ForwardedRequests
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.metadata_loader import MetadataLoader
from penstock.errors import (
    ApiError,
    InvariantViolation,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnknownServerError,
)
from penstock.messages.admin_apis import DESCRIBE_QUORUM
from penstock.messages.client_apis import CREATE_TOPICS
from penstock.messages.quorum import DescribeQuorumRequest
from penstock.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from tests.support.sinks import CALLER
from tests.support.virtual_time import run_virtual

SOME_MAX = 2_000
"""More than a node holds, so that a test without the limit ends."""


class RaisingController:
    """A way to the controller whose every call raises the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def call(self, *_: Any) -> Any:
        raise self._error


class SlowController:
    """A way to a controller that decides after a while."""

    async def call(self, *_: Any) -> Any:
        await asyncio.sleep(0.7)
        return CreateTopicsResponse((), metadata_offset=5)


class Answered:
    """Waits for the answer of one request."""

    def __init__(self) -> None:
        self.done = asyncio.Event()

    def response_ready(self, request: Request) -> None:
        self.done.set()


@pytest.mark.parametrize(
    ("raised", "answer", "is_fatal"),
    [
        (RequestTimedOutError("no controller"), RequestTimedOutError, False),
        (ZeroDivisionError("a bug"), UnknownServerError, False),
        (InvariantViolation("the log and the state differ"), UnknownServerError, True),
    ],
)
def test_an_error_in_the_task_is_the_answer_and_a_violated_invariant_ends_the_node(
    raised: Exception, answer: type[ApiError], is_fatal: bool
) -> None:
    async def main() -> None:
        fatal: list[BaseException] = []
        channel = cast(ControllerChannel, RaisingController(raised))
        forwarded = ForwardedRequests(channel, MetadataLoader(), FailedRequests(fatal.append).fail)
        sink = Answered()
        request = Request("CreateTopics", None, sink, CALLER, lambda: 1)
        forwarded.handler(CREATE_TOPICS)(request, CreateTopicsRequest(timeout_ms=100))
        await asyncio.wait_for(sink.done.wait(), 10)
        assert isinstance(request.error, answer) and fatal == ([raised] if is_fatal else [])

    asyncio.run(main())


def test_a_question_that_no_controller_answers_in_time_gets_the_other_answer() -> None:
    async def main() -> None:
        channel = cast(ControllerChannel, RaisingController(RequestTimedOutError("the quorum has no leader")))
        forwarded = ForwardedRequests(channel, MetadataLoader(), FailedRequests(pytest.fail).fail)
        sink = Answered()
        request = Request("DescribeQuorum", None, sink, CALLER, lambda: 1)
        forwarded.ask(DESCRIBE_QUORUM, request, DescribeQuorumRequest(), 2_000, lambda: "my own view")
        await asyncio.wait_for(sink.done.wait(), 10)
        assert (request.response, request.error) == ("my own view", None)

    asyncio.run(main())


def test_a_party_has_as_many_requests_that_wait_for_the_controller_as_stay_free_for_others() -> None:
    """One alone has half of them, a second one half of the rest; and whoever is refused may ask again once one of its
    own is answered."""

    async def main() -> None:
        channel = cast(ControllerChannel, SlowController())
        forwarded = ForwardedRequests(channel, MetadataLoader(), FailedRequests(pytest.fail).fail)

        def ask(user: str) -> None:
            request = Request("DescribeQuorum", None, Answered(), CALLER._replace(principal=f"User:{user}"), lambda: 1)
            forwarded.ask(DESCRIBE_QUORUM, request, DescribeQuorumRequest(), 2_000, lambda: "my own view")

        def taken(user: str) -> int:
            for count in range(SOME_MAX):
                try:
                    ask(user)
                except ResourceExhaustedError as error:
                    assert f"{count} requests of User:{user} wait for the controller already" in str(error)
                    return count
            pytest.fail("nothing is refused")

        assert (taken("anna"), taken("bob"), taken("eve")) == (500, 250, 125)
        await asyncio.sleep(1)
        assert taken("anna") == 500
        await asyncio.sleep(1)

    run_virtual(main())


@pytest.mark.parametrize(("timeout_ms", "answered_s"), [(1_000, 0.7 + 0.15), (30_000, 0.7 + APPLIED_S)])
def test_a_change_that_this_node_does_not_see_is_answered_before_its_caller_would_make_it_again(
    timeout_ms: int, answered_s: float
) -> None:
    async def main() -> None:
        channel = cast(ControllerChannel, SlowController())
        forwarded = ForwardedRequests(channel, MetadataLoader(), FailedRequests(pytest.fail).fail)
        sink = Answered()
        request = Request("CreateTopics", None, sink, CALLER, lambda: 1)
        began_s = asyncio.get_running_loop().time()
        forwarded.handler(CREATE_TOPICS)(request, CreateTopicsRequest(timeout_ms=timeout_ms))
        await asyncio.wait_for(sink.done.wait(), 60)
        assert (request.response, request.error) == (CreateTopicsResponse((), metadata_offset=5), None)
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(answered_s)

    run_virtual(main())
