"""The APIs of transactions, at a broker's listeners: of producers, of the leaders of their partitions, and of
administrators. The coordinator of a transactional id answers, so all of them may wait for its log.

FindCoordinator is groups/group_apis.py's, InitProducerId client_apis.py's, and WriteTxnMarkers nodes/node_apis.py's.
Not here: what a row has (api.py), and what limits are for (client_apis.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.messages.api import KIB, MIB, SMALL, Api, ApiKind, ApiLimits, Operation, Outcome
from penstock.messages.client_apis import ASKED_MAX, NAMES_MAX, PARTITIONS_MAX
from penstock.messages.transactions import atomic_batches, listing, producers

DESCRIBED_MAX: Final = 1_000
"""Transactional ids of one description, which has every partition of each."""
WRITERS_MAX: Final = 10_000
"""Writers of one atomic batch."""


def _added(answer: producers.AddPartitionsToTxnResponse) -> Iterator[Outcome]:
    for transaction in answer.transactions:
        yield from transaction.partitions


ADD_PARTITIONS_TO_TXN: Final = Api(
    "AddPartitionsToTxn",
    producers.AddPartitionsToTxnRequest,
    producers.AddPartitionsToTxnResponse,
    ApiKind.LOCAL,
    ApiLimits(
        4 * MIB,
        {"transactions": PARTITIONS_MAX, "transactions.partitions": ASKED_MAX},
        "the others in the next one: a transaction takes them one after another",
    ),
    Operation.WRITE,
    _added,
    may_wait=True,
    is_for_brokers=True,
    no_sender="it is asked in the name of a producer, whose id and epoch it has",
)
ADD_OFFSETS_TO_TXN: Final = Api(
    "AddOffsetsToTxn",
    producers.AddOffsetsToTxnRequest,
    producers.AddOffsetsToTxnResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.WRITE,
    may_wait=True,
)
TXN_OFFSET_COMMIT: Final = Api(
    "TxnOffsetCommit",
    producers.TxnOffsetCommitRequest,
    producers.TxnOffsetCommitResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}, "the others in the next one"),
    Operation.WRITE,
    lambda answer: answer.partitions,
    may_wait=True,
)
END_TXN: Final = Api(
    "EndTxn",
    producers.EndTxnRequest,
    producers.EndTxnResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.WRITE,
    may_wait=True,
)
BEGIN_ATOMIC_BATCH: Final = Api(
    "BeginAtomicBatch",
    atomic_batches.BeginAtomicBatchRequest,
    atomic_batches.BeginAtomicBatchResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.WRITE,
    may_wait=True,
)
COMMIT_ATOMIC_BATCH: Final = Api(
    "CommitAtomicBatch",
    atomic_batches.CommitAtomicBatchRequest,
    atomic_batches.CommitAtomicBatchResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"writers": WRITERS_MAX}, "a version has no more writers"),
    Operation.WRITE,
    may_wait=True,
)
ABORT_ATOMIC_BATCH: Final = Api(
    "AbortAtomicBatch",
    atomic_batches.AbortAtomicBatchRequest,
    atomic_batches.AbortAtomicBatchResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"writers": WRITERS_MAX}, "a version has no more writers"),
    Operation.WRITE,
    may_wait=True,
)
DESCRIBE_TRANSACTIONS: Final = Api(
    "DescribeTransactions",
    listing.DescribeTransactionsRequest,
    listing.DescribeTransactionsResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"transactional_ids": DESCRIBED_MAX}, "the answer has every partition of each"),
    Operation.DESCRIBE,
    lambda answer: answer.transactions,
    may_wait=True,
)
LIST_TRANSACTIONS: Final = Api(
    "ListTransactions",
    listing.ListTransactionsRequest,
    listing.ListTransactionsResponse,
    ApiKind.LOCAL,
    ApiLimits(64 * KIB, {"states": 32, "producer_ids": NAMES_MAX}),
    Operation.DESCRIBE,
    may_wait=True,
)
END_HANGING_TRANSACTION: Final = Api(
    "EndHangingTransaction",
    listing.EndHangingTransactionRequest,
    listing.EndHangingTransactionResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.ALTER,
    may_wait=True,
)
