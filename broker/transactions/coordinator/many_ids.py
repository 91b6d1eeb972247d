"""Requests about several transactional ids: one row for each such API, and the list of all transactions.

Not here: who parts and joins (coordination/joined_answers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from broker.coordination.coordinator import CoordinatedIds
from broker.coordination.joined_answers import ManyIds
from penstock.errors import ApiError
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionDescription,
)
from penstock.messages.transactions.producers import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionResult,
    TransactionPartitionResults,
)


def _not_added(request: AddPartitionsToTxnRequest, place: int, error: ApiError) -> TransactionPartitionResults:
    asked = request.transactions[place]
    results = tuple(TransactionPartitionResult(partition, error) for partition in asked.partitions)
    return TransactionPartitionResults(asked.transactional_id, results)


_SEVERAL: Final[dict[type, ManyIds]] = {
    AddPartitionsToTxnRequest: ManyIds(
        lambda request: [asked.transactional_id for asked in request.transactions],
        lambda request, places: replace(request, transactions=tuple(request.transactions[place] for place in places)),
        lambda answer: answer.transactions,
        _not_added,
        AddPartitionsToTxnResponse,
    ),
    DescribeTransactionsRequest: ManyIds(
        lambda request: request.transactional_ids,
        lambda request, places: replace(
            request, transactional_ids=tuple(request.transactional_ids[place] for place in places)
        ),
        lambda answer: answer.transactions,
        lambda request, place, error: TransactionDescription(request.transactional_ids[place], error),
        DescribeTransactionsResponse,
    ),
}


def _joined(answers: Sequence[ListTransactionsResponse]) -> ListTransactionsResponse:
    """The transactions of all shards."""
    unknown = dict.fromkeys(word for answer in answers for word in answer.unknown_states)
    return ListTransactionsResponse(tuple(one for answer in answers for one in answer.transactions), tuple(unknown))


TRANSACTIONAL_IDS: Final = CoordinatedIds(
    word="transactional id", several=_SEVERAL, listing=ListTransactionsRequest, joined=_joined
)
