"""Promises of InitProducerId: a producer gets an id, and what there is not is said at once."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis.init_producer_id import init_producer_id_failed, init_producer_id_plan
from broker.kafka.schemas.producers import InitProducerIdRequest
from penstock.errors import RequestTimedOutError
from penstock.messages.produce import InitProducerIdResponse
from tests.support.kafka_plans import asked, ended, first_ask, read_by_client

COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, NOT_AUTHORIZED = 14, 42, 53


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
