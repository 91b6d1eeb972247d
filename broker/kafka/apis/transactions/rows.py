"""The rows of the APIs of transactions. FindCoordinator and InitProducerId are groups' and producers', too."""

from __future__ import annotations

from functools import partial

from broker.kafka.api_row import ApiRow, Failed
from broker.kafka.apis.transactions import add_partitions, ending, listing, offset_commit
from broker.kafka.parts import DoorParts
from broker.kafka.plan import MakePlan
from broker.kafka.schemas.table import REQUESTS, RESPONSES


def transaction_rows(parts: DoorParts) -> list[ApiRow]:
    """The rows in the order of their keys."""
    add, commit = partial(add_partitions.add_partitions_to_txn, parts), partial(offset_commit.txn_offset_commit, parts)
    describe, described_failed = listing.describe_transactions, listing.describe_transactions_failed
    return [
        _row(24, "AddPartitionsToTxn", (0, 5), add, add_partitions.add_partitions_to_txn_failed),
        _row(25, "AddOffsetsToTxn", (0, 4), ending.add_offsets_to_txn),
        _row(26, "EndTxn", (0, 5), ending.end_txn),
        _row(28, "TxnOffsetCommit", (0, 5), commit, offset_commit.txn_offset_commit_failed),
        _row(65, "DescribeTransactions", (0, 0), describe, described_failed),
        _row(66, "ListTransactions", (0, 2), listing.list_transactions),
    ]


def _row(key: int, name: str, versions: tuple[int, int], plan: MakePlan, failed: Failed | None = None) -> ApiRow:
    """A row of an API. Without `failed`, an error of the request as a whole is the answer's `error_code`."""
    return ApiRow(key, name, REQUESTS[key], RESPONSES[key], versions, plan, failed=failed)
