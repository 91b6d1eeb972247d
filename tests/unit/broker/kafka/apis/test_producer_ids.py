"""Promises of InitProducerId and FindCoordinator: a producer gets an id, and what there is not is said at once."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis.find_coordinator import NO_GROUPS, NO_TRANSACTIONS, find_coordinator
from broker.kafka.apis.init_producer_id import init_producer_id_failed, init_producer_id_plan
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest
from broker.kafka.schemas.producers import InitProducerIdRequest
from penstock.errors import RequestTimedOutError
from penstock.messages.produce import InitProducerIdResponse
from tests.support.kafka_plans import asked, ended, first_ask, read_by_client

COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, NO_SUCH_VERSION, NOT_AUTHORIZED = 14, 42, 35, 53


def answered_at_once(make: Any, version: int, body: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        next(make(asked(version), body))
    return read_by_client(end.value.value, version)


@pytest.mark.parametrize("version", range(6))
def test_a_producer_gets_an_id_of_its_own(version: int) -> None:
    plan = init_producer_id_plan(asked(version), InitProducerIdRequest(transaction_timeout_ms=60_000))
    first_ask(plan, "InitProducerId")
    read = read_by_client(ended(plan, InitProducerIdResponse(1_000_007, 0)), version)
    assert (read.error_code, read.producer_id, read.producer_epoch) == (0, 1_000_007, 0)


def test_a_producer_that_asks_for_its_next_epoch_gets_a_new_id() -> None:
    plan = init_producer_id_plan(asked(4), InitProducerIdRequest(producer_id=7, producer_epoch=3))
    first_ask(plan, "InitProducerId")
    read = read_by_client(ended(plan, InitProducerIdResponse(8, 0)), 4)
    assert (read.producer_id, read.producer_epoch) == (8, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 7}, INVALID_REQUEST),
        ({"producer_epoch": 7}, INVALID_REQUEST),
        ({"transactional_id": ""}, INVALID_REQUEST),
        ({"transactional_id": "mine"}, NOT_AUTHORIZED),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused_at_once(fields: dict[str, Any], code: int) -> None:
    read = answered_at_once(init_producer_id_plan, 4, InitProducerIdRequest(**fields))
    assert (read.error_code, read.producer_id, read.producer_epoch) == (code, -1, -1)


def test_while_there_is_no_id_the_client_tries_again() -> None:
    read = read_by_client(init_producer_id_failed(asked(5), InitProducerIdRequest(), RequestTimedOutError()), 5)
    assert (read.error_code, read.producer_id, read.producer_epoch) == (COORDINATOR_LOAD_IN_PROGRESS, -1, -1)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    ("key_type", "code", "why"), [(0, NO_SUCH_VERSION, NO_GROUPS), (1, NOT_AUTHORIZED, NO_TRANSACTIONS)]
)
def test_no_broker_coordinates_anything_yet(version: int, key_type: int, code: int, why: str) -> None:
    if version or key_type == 0:
        body = FindCoordinatorRequest(key="mine", key_type=key_type)
        read = answered_at_once(find_coordinator, version, body)
        assert (read.error_code, read.node_id, read.host, read.port) == (code, -1, "", -1)
        assert read.error_message == (why if version else None)


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize(("key_type", "code"), [(0, NO_SUCH_VERSION), (1, NO_SUCH_VERSION), (2, INVALID_REQUEST)])
def test_each_key_of_a_request_has_its_answer(version: int, key_type: int, code: int) -> None:
    body = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    read = answered_at_once(find_coordinator, version, body)
    assert [one.key for one in read.coordinators] == ["a", "b"]
    assert {(one.error_code, one.node_id, one.host, one.port) for one in read.coordinators} == {(code, -1, "", -1)}
    assert all(one.error_message for one in read.coordinators)
