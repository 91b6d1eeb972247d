"""DescribeTransactions 0 and ListTransactions 0 to 2 (keys 65 and 66): transactions, as administrators see them.

A description (KIP-664) asks the coordinator of its ids, a list every broker for its own. From version 1 on a list may
be of those open for longer than a time (KIP-994), from version 2 on of ids that match a pattern (KIP-1152). A state
that there is not is told back, and lets nothing through.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from penstock.errors import ApiError
from penstock.messages.transactions import listing as messages
from penstock.messages.transactions.transaction_apis import DESCRIBE_TRANSACTIONS, DESCRIBED_MAX, LIST_TRANSACTIONS


def describe_transactions(asked: Asked, body: DescribeTransactionsRequest) -> Plan:
    ids = list(dict.fromkeys(body.transactional_ids))
    found: list[DescribeTransactionsResponseTransactionState] = []
    for at in range(0, len(ids), DESCRIBED_MAX):
        request = messages.DescribeTransactionsRequest(tuple(ids[at : at + DESCRIBED_MAX]))
        response: messages.DescribeTransactionsResponse = yield Ask(DESCRIBE_TRANSACTIONS.name, request)
        found += [_described(asked, one) for one in response.transactions]
    return DescribeTransactionsResponse(transaction_states=found)


def describe_transactions_failed(
    asked: Asked, body: DescribeTransactionsRequest, error: ApiError
) -> DescribeTransactionsResponse:
    """The answer to a request that failed as a whole: the error for each id."""
    ids = dict.fromkeys(body.transactional_ids)
    return DescribeTransactionsResponse(transaction_states=[_failed(asked, one, error) for one in ids])


def list_transactions(asked: Asked, body: ListTransactionsRequest) -> Plan:
    request = messages.ListTransactionsRequest(
        tuple(body.state_filters),
        tuple(body.producer_id_filters),
        body.duration_filter,
        body.transactional_id_pattern or "",
    )
    listed: messages.ListTransactionsResponse = yield Ask(LIST_TRANSACTIONS.name, request)
    response = ListTransactionsResponse(unknown_state_filters=list(listed.unknown_states))
    for number, one in enumerate(listed.transactions):
        if is_pause_due(number):
            yield PAUSE
        response.transaction_states.append(
            ListTransactionsResponseTransactionState(
                transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state
            )
        )
    return response


def _described(asked: Asked, one: messages.TransactionDescription) -> DescribeTransactionsResponseTransactionState:
    if one.error is not None:
        return _failed(asked, one.transactional_id, one.error)
    indexes: dict[str, list[int]] = {}
    for key in one.partitions:
        indexes.setdefault(key.topic, []).append(key.partition)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=one.transactional_id,
        transaction_state=one.state,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.start_ms,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        topics=[DescribeTransactionsResponseTopicData(topic=name, partitions=some) for name, some in indexes.items()],
    )


def _failed(asked: Asked, transactional_id: str, error: ApiError) -> DescribeTransactionsResponseTransactionState:
    return DescribeTransactionsResponseTransactionState(
        error_code=code_of(error, DESCRIBE_TRANSACTIONS.name, asked.version), transactional_id=transactional_id
    )


SERVED: Final = (
    serves(
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        (0, 0),
        alone(describe_transactions),
        failed=describe_transactions_failed,
    ),
    serves(ListTransactionsRequest, ListTransactionsResponse, (0, 2), alone(list_transactions)),
)
