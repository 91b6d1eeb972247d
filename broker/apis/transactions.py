"""The APIs of transactions: each request goes to the coordinator of its transactional id, which answers now or later.

TxnOffsetCommit goes to the coordinator of its group. FindCoordinator and InitProducerId are of both kinds: for groups
and for transactional ids, for producers with a transactional id and for those without. A request that waits holds no
handler. Not here: the coordinators (broker/transactions/, broker/groups/), and the leaders' part, WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from broker.apis.groups import Coordinator
from broker.apis.router import Handle
from broker.network.request_channel import Request
from broker.transactions.atomic_batches.batch_checks import check_application
from penstock.errors import InvalidRequestError
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest
from penstock.messages.groups.group_apis import FIND_COORDINATOR
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions import transaction_apis as rows
from penstock.messages.transactions.producers import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from penstock.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

OF_APPLICATIONS: Final = (rows.BEGIN_ATOMIC_BATCH, rows.COMMIT_ATOMIC_BATCH, rows.ABORT_ATOMIC_BATCH)
OF_MANY_IDS: Final = (rows.ADD_PARTITIONS_TO_TXN, rows.DESCRIBE_TRANSACTIONS, rows.LIST_TRANSACTIONS)


class GroupsOfTransactions(Protocol):
    """The coordinator of the groups of this broker, as far as transactions have to do with it."""

    def submit(self, request: Request, key: str, body: Any, /) -> None: ...

    def partition_of(self, group_id: str, /) -> int:
        """The partition of the groups' topic; an ApiError for an id that no group can have, and while there is no
        topic: it is being made then."""
        ...


def transaction_handlers(
    coordinator: Coordinator, groups: GroupsOfTransactions, others: Mapping[str, Handle]
) -> dict[str, Handle]:
    """The handlers of all APIs of transactions, by name; `others` has those of FindCoordinator for groups, and of
    InitProducerId for producers without a transactional id."""
    of_groups, without_id = others[FIND_COORDINATOR.name], others[INIT_PRODUCER_ID.name]

    def find(request: Request, body: FindCoordinatorRequest) -> None:
        if body.key_type is CoordinatorType.TRANSACTION:
            coordinator.find(request, body)
        else:
            of_groups(request, body)

    def init_producer_id(request: Request, body: InitProducerIdRequest) -> None:
        if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
            raise InvalidRequestError(f"{request.api}: one that goes on names its id and its epoch, a new one neither")
        if body.transactional_id is None:
            without_id(request, body)
        else:
            of_one_id(request, body)

    def of_one_id(request: Request, body: Any) -> None:
        _check(request, body.transactional_id)
        coordinator.submit(request, body.transactional_id, body)

    def add_offsets(request: Request, body: AddOffsetsToTxnRequest) -> None:
        _check(request, body.transactional_id)
        groups.partition_of(body.group_id)
        coordinator.submit(request, body.transactional_id, body)

    def of_application(request: Request, body: Any) -> None:
        check_application(body.application)
        coordinator.submit(request, body.transactional_id, body)

    def commit_offsets(request: Request, body: TxnOffsetCommitRequest) -> None:
        groups.submit(request, body.group_id, body)

    return {
        FIND_COORDINATOR.name: find,
        INIT_PRODUCER_ID.name: init_producer_id,
        rows.TXN_OFFSET_COMMIT.name: commit_offsets,
        rows.ADD_OFFSETS_TO_TXN.name: add_offsets,
        rows.END_TXN.name: of_one_id,
        **dict.fromkeys((api.name for api in OF_APPLICATIONS), of_application),
        **dict.fromkeys((api.name for api in OF_MANY_IDS), coordinator.submit_each),
    }


def _check(request: Request, transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError(f"{request.api}: the transactional id is empty; leave it out for no transactions")
