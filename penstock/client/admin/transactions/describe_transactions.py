"""Lists transactional ids, and describes them with their transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.cluster_views import ask_every_broker
from penstock.client.admin.transactions.transaction_types import TransactionDetails, TransactionOverview
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.wire.connection import Connection
from penstock.errors import ApiError
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TransactionDescription,
)
from penstock.messages.transactions.transaction_apis import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS


async def list_transactions(
    cluster: ClusterClient, request: ListTransactionsRequest, deadline_ms: int
) -> list[TransactionOverview]:
    """The transactions of all brokers, sorted by id."""
    found = {
        one.transactional_id: TransactionOverview(one.transactional_id, one.producer_id, one.state, node_id)
        for node_id, answer in await ask_every_broker(cluster, LIST_TRANSACTIONS, request, deadline_ms)
        for one in answer.transactions
    }
    return [found[transactional_id] for transactional_id in sorted(found)]


async def describe_transactions(
    coordinators: Coordinators, transactional_ids: Sequence[str], deadline_ms: int
) -> dict[str, TransactionDetails]:
    """Each as its coordinator describes it, in the order of the ids."""

    async def ask(
        connection: Connection, named: Sequence[str], left_ms: int
    ) -> Mapping[str, TransactionDescription | ApiError]:
        answer = await connection.call(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(tuple(named)), left_ms)
        return {one.transactional_id: one.error or one for one in answer.transactions}

    answers = await coordinators.ask_each(transactional_ids, ask, deadline_ms)
    found: dict[str, TransactionDetails] = {}
    for transactional_id, answer in answers.items():
        if isinstance(answer, ApiError):
            found[transactional_id] = TransactionDetails(transactional_id, answer)
        else:
            node_id = await coordinators.node_of(transactional_id, deadline_ms)
            found[transactional_id] = _details(answer, node_id)
    return found


def _details(one: TransactionDescription, coordinator_id: int) -> TransactionDetails:
    return TransactionDetails(
        transactional_id=one.transactional_id,
        error=None,
        state=one.state,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        timeout_ms=one.timeout_ms,
        start_ms=one.start_ms,
        partitions=tuple(sorted(one.partitions)),
        coordinator_id=coordinator_id,
    )
