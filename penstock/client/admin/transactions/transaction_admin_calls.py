"""The calls of Admin about transactions, as its faces have them: each checks what the user gave, and leaves the rest to
the module of its subject.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.transactions import describe_transactions as describing
from penstock.client.admin.transactions import hanging
from penstock.client.admin.transactions.transaction_types import (
    HangingTransaction,
    TransactionDetails,
    TransactionOverview,
)
from penstock.client.cluster import arguments
from penstock.client.cluster.coordinators import Coordinators
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.groups.coordinators import CoordinatorType
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions.atomic_batches import (
    OPEN_VERSION,
    AbortAtomicBatchRequest,
    application_of_writer,
)
from penstock.messages.transactions.listing import ListTransactionsRequest, TransactionState
from penstock.messages.transactions.transaction_apis import ABORT_ATOMIC_BATCH
from penstock.types import TopicPartition

OLDER_THAN_MS = 15 * 60_000
"""Kafka's `transaction.max.timeout.ms`: no transaction that goes on is older than that by default."""


class TransactionAdminCalls:
    """The calls about transactions, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core
        self._coordinators = Coordinators(core.cluster, CoordinatorType.TRANSACTION)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str = "",
    ) -> list[TransactionOverview]:
        """Every transactional id, sorted; only those in one of these states, with one of these producer ids, with a
        transaction that is open for longer than `open_for_ms`, or that a regular expression (RE2) matches.

        States are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead and
        PrepareEpochFence.
        """
        request = ListTransactionsRequest(
            arguments.checked_words("states", states, [state.value for state in TransactionState]),
            tuple(arguments.checked_number("producer_ids", one, 0) for one in producer_ids),
            -1 if open_for_ms is None else arguments.checked_number("open_for_ms", open_for_ms, 0),
            pattern,
        )
        return await describing.list_transactions(self._core.cluster, request, await self._core.begin())

    async def describe_transaction(self, transactional_id: str) -> TransactionDetails:
        """A transactional id: its state, its producer, and the partitions of its open transaction.
        TransactionalIdNotFoundError if no coordinator knows it."""
        found = (await self.describe_transactions([transactional_id]))[transactional_id]
        if found.error is not None:
            raise found.error
        return found

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDetails]:
        """Several transactional ids, each as `describe_transaction` gives it; one that cannot be described has an
        `error`."""
        named = _checked_ids(transactional_ids)
        return await describing.describe_transactions(self._coordinators, named, await self._core.begin())

    async def fence_producer(self, transactional_id: str) -> None:
        """Aborts the open transaction of a transactional id and fences its producer, which must initialize again. A
        transaction that was already decided stays decided. TransactionalIdNotFoundError if no coordinator knows the id.

        For a writer of an atomic batch (`penstock.batch:APPLICATION#ID`) this aborts the whole open version, with all
        of its writers: they are decided together.
        """
        (named,) = _checked_ids([transactional_id])
        deadline_ms = await self._core.begin()
        known = (await describing.describe_transactions(self._coordinators, (named,), deadline_ms))[named]
        if known.error is not None:
            raise known.error
        if (application := application_of_writer(named)) is not None:
            abort = AbortAtomicBatchRequest(application, OPEN_VERSION)
            await self._coordinators.ask(ABORT_ATOMIC_BATCH, abort, deadline_ms)
            return
        # It begins no transaction. The time-out that the id had may be above a maximum that was lowered since.
        request = InitProducerIdRequest(named, transaction_timeout_ms=1)
        await self._coordinators.ask(INIT_PRODUCER_ID, request, deadline_ms)

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int = OLDER_THAN_MS
    ) -> list[HangingTransaction]:
        """Transactions that these partitions have open for longer than `older_than_ms`, and that no coordinator will
        end: their read_committed readers wait for ever."""
        wanted = arguments.checked_partitions(partitions)
        before_ms = self._core.wall_ms() - arguments.checked_number("older_than_ms", older_than_ms, 0)
        return await hanging.find_hanging(
            self._core.cluster, self._coordinators, wanted, before_ms, await self._core.begin()
        )

    async def abort_hanging_transaction(self, partition: TopicPartition, start_offset: int) -> HangingTransaction:
        """Aborts the transaction that begins at this offset of the partition, there alone; what it was.

        InvalidTxnStateError if none is open there, or if a coordinator has it: `fence_producer` ends that one whole.
        """
        tp = arguments.checked_partition(partition)
        offset = arguments.checked_number("start_offset", start_offset, 0)
        return await hanging.end_hanging(self._core.cluster, self._coordinators, tp, offset, await self._core.begin())


def _checked_ids(transactional_ids: Any) -> tuple[str, ...]:
    """Transactional ids, each once; not the letters of one."""
    if isinstance(transactional_ids, str) or not isinstance(transactional_ids, Iterable):
        raise TypeError(f"transactional_ids must be a list of ids, like ['billing'], not {transactional_ids!r}")
    named = tuple(dict.fromkeys(transactional_ids))
    for one in named:
        if not isinstance(one, str):
            raise TypeError(f"a transactional id must be a str, not {type(one).__name__}")
        if not one:
            raise ValueError("a transactional id is not empty")
    return named
