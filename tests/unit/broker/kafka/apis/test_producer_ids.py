"""Promises of InitProducerId: a producer gets an id, a transactional id is its coordinator's."""

from __future__ import annotations

import pytest

from broker.kafka.apis.init_producer_id import init_producer_id_failed, init_producer_id_plan
from broker.kafka.schemas.producers import InitProducerIdRequest
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
)
from penstock.messages import produce as messages
from penstock.messages.produce import InitProducerIdResponse
from tests.support.kafka_plans import asked, ended, first_ask, read_by_client


@pytest.mark.parametrize("version", range(6))
def test_a_producer_gets_an_id_of_its_own(version: int) -> None:
    plan = init_producer_id_plan(asked(version), InitProducerIdRequest(transaction_timeout_ms=60_000))
    first_ask(plan, "InitProducerId")
    read = read_by_client(ended(plan, InitProducerIdResponse(1_000_007, 0)), version)
    assert (read.error_code, read.producer_id, read.producer_epoch) == (0, 1_000_007, 0)


def test_a_producer_that_asks_for_its_next_epoch_gets_a_new_id() -> None:
    plan = init_producer_id_plan(asked(4), InitProducerIdRequest(producer_id=7, producer_epoch=3))
    assert first_ask(plan, "InitProducerId") == messages.InitProducerIdRequest(None, 0, 7, 3)
    read = read_by_client(ended(plan, InitProducerIdResponse(8, 0)), 4)
    assert (read.producer_id, read.producer_epoch) == (8, 0)


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_is_passed_on_to_its_coordinator(version: int) -> None:
    goes_on = {"producer_id": 7, "producer_epoch": 3} if version >= 3 else {}
    body = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=5_000, **goes_on)
    plan = init_producer_id_plan(asked(version), body)
    wanted = messages.InitProducerIdRequest("x", 5_000, *((7, 3) if version >= 3 else (-1, -1)))
    assert first_ask(plan, "InitProducerId") == wanted
    read = read_by_client(ended(plan, InitProducerIdResponse(7, 4)), version)
    assert (read.error_code, read.producer_id, read.producer_epoch) == (0, 7, 4)


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (RequestTimedOutError(), [14] * 6),
        (InvalidRequestError(), [42] * 6),
        (InvalidTransactionTimeoutError(), [50] * 6),
        (ConcurrentTransactionsError(), [51] * 6),
        (ProducerFencedError(), [47, 47, 47, 47, 90, 90]),
        (TransactionAbortableError(), [48, 48, 48, 48, 48, 120]),
    ],
    ids=lambda value: getattr(value, "kafka_name", ""),
)
def test_an_error_is_one_that_the_version_knows(error: ApiError, codes: list[int]) -> None:
    for version, code in enumerate(codes):
        read = read_by_client(init_producer_id_failed(asked(version), InitProducerIdRequest(), error), version)
        assert (read.error_code, read.producer_id, read.producer_epoch) == (code, -1, -1)
