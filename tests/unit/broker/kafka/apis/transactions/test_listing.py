"""Promises of descriptions and lists of transactions at Kafka's listener (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.plan import Ask
from broker.kafka.schemas import transactions as schemas
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    InvalidRegularExpressionError,
    NotCoordinatorError,
    RequestTimedOutError,
    TransactionalIdNotFoundError,
)
from penstock.messages.transactions import listing as messages
from penstock.messages.transactions.transaction_apis import DESCRIBED_MAX
from penstock.types import TopicPartition
from tests.support.kafka_plans import asked, ended, first_ask, parts_of, read_by_client
from tests.support.kafka_rows import TRANSACTIONS, rows_over

ROWS = {row.name: row for row in rows_over(parts_of(), *TRANSACTIONS)}
ONGOING = messages.TransactionDescription(
    "x",
    None,
    "Ongoing",
    60_000,
    1_700_000_000_000,
    7,
    3,
    (TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 0)),
)


def test_a_transaction_is_described_with_its_partitions_by_topic() -> None:
    body = schemas.DescribeTransactionsRequest(transactional_ids=["x", "gone", "elsewhere", "x"])
    plan = ROWS["DescribeTransactions"].plan(asked(0), body)
    assert first_ask(plan, "DescribeTransactions").transactional_ids == ("x", "gone", "elsewhere")
    answer = (
        ONGOING,
        messages.TransactionDescription("gone", TransactionalIdNotFoundError()),
        messages.TransactionDescription("elsewhere", NotCoordinatorError()),
    )
    read = read_by_client(ended(plan, messages.DescribeTransactionsResponse(answer)), 0).transaction_states
    assert [(one.transactional_id, one.error_code, one.transaction_state) for one in read] == [
        ("x", 0, "Ongoing"),
        ("gone", 105, ""),
        ("elsewhere", 16, ""),
    ]
    assert [(topic.topic, topic.partitions) for topic in read[0].topics] == [("t", [1, 0]), ("u", [0])]
    times = read[0].transaction_timeout_ms, read[0].transaction_start_time_ms
    assert (*times, read[0].producer_id, read[0].producer_epoch) == (60_000, 1_700_000_000_000, 7, 3)


def test_many_ids_are_described_in_turns() -> None:
    ids = [f"x{n}" for n in range(DESCRIBED_MAX + 1)]
    plan = ROWS["DescribeTransactions"].plan(asked(0), schemas.DescribeTransactionsRequest(transactional_ids=ids))
    first = first_ask(plan, "DescribeTransactions")
    described = tuple(messages.TransactionDescription(one) for one in first.transactional_ids)
    second = plan.send(messages.DescribeTransactionsResponse(described))
    assert isinstance(second, Ask)
    assert (len(first.transactional_ids), second.body.transactional_ids) == (DESCRIBED_MAX, (ids[-1],))


@pytest.mark.parametrize(
    ("error", "code"), [(CoordinatorLoadInProgressError(), 14), (RequestTimedOutError(), 15)], ids=["loading", "slow"]
)
def test_a_description_that_fails_as_a_whole_has_its_error_for_each_id(error: ApiError, code: int) -> None:
    body = schemas.DescribeTransactionsRequest(transactional_ids=["x", "y"])
    read = read_by_client(failed_answer(ROWS["DescribeTransactions"], asked(0), body, error), 0)
    assert [(one.transactional_id, one.error_code) for one in read.transaction_states] == [("x", code), ("y", code)]


@pytest.mark.parametrize(
    ("version", "fields", "asks"),
    [
        (0, {}, {}),
        (0, {"state_filters": ["Ongoing"], "producer_id_filters": [7]}, {"states": ("Ongoing",), "producer_ids": (7,)}),
        (1, {"duration_filter": 9}, {"duration_ms": 9}),
        (2, {"transactional_id_pattern": "a.*"}, {"pattern": "a.*"}),
        (2, {"transactional_id_pattern": None}, {}),
        (2, {"transactional_id_pattern": ""}, {}),
    ],
)
def test_a_list_passes_its_filters_on(version: int, fields: dict[str, Any], asks: dict[str, Any]) -> None:
    body = read_by_client(schemas.ListTransactionsRequest(**fields), version)
    plan = ROWS["ListTransactions"].plan(asked(version), body)
    assert first_ask(plan, "ListTransactions") == messages.ListTransactionsRequest(**asks)
    answer = messages.ListTransactionsResponse((messages.TransactionListing("x", 7, "Ongoing"),), ("Odd",))
    read = read_by_client(ended(plan, answer), version)
    assert [(one.transactional_id, one.producer_id, one.transaction_state) for one in read.transaction_states] == [
        ("x", 7, "Ongoing")
    ]
    assert (read.error_code, read.unknown_state_filters) == (0, ["Odd"])


@pytest.mark.parametrize(
    ("error", "code"), [(InvalidRegularExpressionError(), 128), (CoordinatorLoadInProgressError(), 14)]
)
def test_a_list_that_cannot_be_made_says_so(error: ApiError, code: int) -> None:
    body = schemas.ListTransactionsRequest()
    assert read_by_client(failed_answer(ROWS["ListTransactions"], asked(2), body, error), 2).error_code == code
