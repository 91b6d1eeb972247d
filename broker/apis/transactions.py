"""The APIs of transactions: each request goes to the coordinator of its transactional id, which answers now or later.

TxnOffsetCommit goes to the coordinator of its group, and two go to leaders: WriteTxnMarkers, from coordinators, and
EndHangingTransaction, from administrators. A request that waits holds no handler. Not here: the coordinators
(broker/transactions/, broker/groups/), InitProducerId (init_producer_id.py) and FindCoordinator (groups.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.apis.api_parts import ApiParts
from broker.apis.coordinators import check_transactional_id_given
from broker.apis.router import Handle
from broker.apis.served import NODES_ALONE, Served
from broker.authorization.rules import transactions as rules
from broker.authorization.rules.ruling import of_cluster, seen, whole
from broker.network.request_channel import Request
from broker.replication.leader.leader_appends import LeaderAppends
from broker.transactions.atomic_batches.batch_checks import check_application
from broker.transactions.leader.transaction_markers import TransactionMarkersApi
from penstock.messages.nodes.node_apis import WRITE_TXN_MARKERS
from penstock.messages.security.acls import Operation, ResourceType
from penstock.messages.transactions import transaction_apis as rows
from penstock.messages.transactions.producers import AddOffsetsToTxnRequest, TxnOffsetCommitRequest


def _of_one_id(parts: ApiParts) -> Handle:
    transactions = parts.transactions

    def handle(request: Request, body: Any) -> None:
        check_transactional_id_given(request.api, body.transactional_id)
        transactions.submit(request, body.transactional_id, body)

    return handle


def _of_application(parts: ApiParts) -> Handle:
    transactions = parts.transactions

    def handle(request: Request, body: Any) -> None:
        check_application(body.application)
        transactions.submit(request, body.transactional_id, body)

    return handle


def _add_offsets(parts: ApiParts) -> Handle:
    groups, transactions = parts.groups, parts.transactions

    def handle(request: Request, body: AddOffsetsToTxnRequest) -> None:
        check_transactional_id_given(request.api, body.transactional_id)
        groups.partition_of(body.group_id)
        transactions.submit(request, body.transactional_id, body)

    return handle


def _commit_offsets(parts: ApiParts) -> Handle:
    groups = parts.groups

    def handle(request: Request, body: TxnOffsetCommitRequest) -> None:
        groups.submit(request, body.group_id, body)

    return handle


def _of_many_ids(parts: ApiParts) -> Handle:
    return parts.transactions.submit_each


def _markers(parts: ApiParts) -> TransactionMarkersApi:
    logs = LeaderAppends(parts.durability, parts.traffic, parts.stamps)
    return TransactionMarkersApi(parts.hosted, logs, parts.groups, parts.stamps)


_WRITES: Final = whole(rules.writes_id)

SERVED: Final = (
    Served(api=rows.ADD_PARTITIONS_TO_TXN, rule=rules.add_partitions_rule, make=_of_many_ids),
    Served(api=rows.ADD_OFFSETS_TO_TXN, rule=whole(rules.adds_offsets), make=_add_offsets),
    Served(api=rows.TXN_OFFSET_COMMIT, rule=rules.txn_offset_commit_rule, make=_commit_offsets),
    Served(api=rows.END_TXN, rule=_WRITES, make=_of_one_id),
    Served(api=rows.BEGIN_ATOMIC_BATCH, rule=_WRITES, make=_of_application),
    Served(api=rows.COMMIT_ATOMIC_BATCH, rule=_WRITES, make=_of_application),
    Served(api=rows.ABORT_ATOMIC_BATCH, rule=_WRITES, make=_of_application),
    Served(api=rows.DESCRIBE_TRANSACTIONS, rule=rules.describe_transactions_rule, make=_of_many_ids),
    Served(
        api=rows.LIST_TRANSACTIONS,
        rule=seen(
            "transactions",
            lambda judge, one: judge.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one.transactional_id),
        ),
        make=_of_many_ids,
    ),
    Served(
        api=rows.END_HANGING_TRANSACTION,
        rule=of_cluster(Operation.ALTER),
        make=lambda parts: _markers(parts).end_hanging,
    ),
    Served(api=WRITE_TXN_MARKERS, rule=NODES_ALONE, make=lambda parts: _markers(parts).handle),
)
