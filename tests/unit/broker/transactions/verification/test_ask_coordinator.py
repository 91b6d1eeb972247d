"""Promises of the way to coordinators: the broker that leads the id's partition, and this broker without a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.coordination.partition_of import partition_of
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.transactions.verification.ask_coordinator import AskCoordinator, ImageCoordinators
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from metadata.records import PartitionRecord, TopicRecord
from penstock.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownServerError,
)
from penstock.messages.transactions.producers import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.support.machine import NOW_NS
from tests.support.two_log_dirs import image_of
from tests.support.virtual_time import run_virtual

ASKED, ANSWER = AddPartitionsToTxnRequest(()), AddPartitionsToTxnResponse(())


def image(leaders: list[int]) -> MetadataImage:
    topic = TopicRecord(TRANSACTION_STATE, "state-id")
    return image_of(
        topic, *(PartitionRecord("state-id", n, (1, 2, 3), (1, 2, 3), leader) for n, leader in enumerate(leaders))
    )


def test_the_coordinator_is_the_leader_of_the_ids_partition() -> None:
    found = ImageCoordinators(lambda: image([3, 1, 2]))
    for name in ("a", "b", "c", "mine"):
        number = partition_of(name, 3)
        assert found.coordinator_of(name) == (number, [3, 1, 2][number])


@pytest.mark.parametrize("known", [EMPTY_IMAGE, image([-1])])
def test_there_may_be_none(known: MetadataImage) -> None:
    with pytest.raises(CoordinatorNotAvailableError):
        ImageCoordinators(lambda: known).coordinator_of("mine")


def asked(broker_id: int, handle: Callable[[Request], None]) -> Any:
    async def call_broker(to: int, body: Any, timeout_ms: int) -> Any:
        return to, body, timeout_ms

    ask = AskCoordinator(1, call_broker, handle, FailedRequests(pytest.fail).fail, NOW_NS)
    return run_virtual(ask(broker_id, ASKED, 5_000))


def test_another_broker_is_called() -> None:
    assert asked(2, lambda request: pytest.fail("not this one")) == (2, ASKED, 5_000)


def test_this_broker_is_asked_without_a_call() -> None:
    def handle(request: Request) -> None:
        assert (request.api, request.body) == ("AddPartitionsToTxn", ASKED)
        request.complete(ANSWER)

    assert asked(1, handle) is ANSWER


@pytest.mark.parametrize(
    ("raised", "told"), [(NotCoordinatorError("no"), NotCoordinatorError), (ValueError("bug"), UnknownServerError)]
)
@pytest.mark.parametrize("answers", [False, True])
def test_its_error_is_the_answer(raised: Exception, told: type[ApiError], answers: bool) -> None:
    def handle(request: Request) -> None:
        if answers and isinstance(raised, ApiError):
            request.fail(raised)
        else:
            raise raised

    with pytest.raises(told):
        asked(1, handle)


def test_a_coordinator_here_that_hangs_is_given_up() -> None:
    requests: list[Request] = []
    with pytest.raises(RequestTimedOutError):
        asked(1, requests.append)
    assert requests[0].is_abandoned
    requests[0].complete(ANSWER)
