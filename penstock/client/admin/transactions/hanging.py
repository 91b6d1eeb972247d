"""Finds transactions that nobody will end (KIP-664), and ends them.

A partition's leader knows the transactions that are open there, by producer id; coordinators know theirs, by
transactional id. A transaction hangs if it is older than any time-out and no coordinator has it open with this
partition: read_committed readers do not get past it. It is ended by an abort marker in the coordinator's place. Such a
marker would tear a transaction that is merely slow, or decided. So it is refused while a coordinator has it, and
nothing counts as hanging while a coordinator cannot be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.client.admin.transactions.describe_transactions import describe_transactions, list_transactions
from penstock.client.admin.transactions.transaction_types import HangingTransaction, TransactionDetails
from penstock.client.cluster.by_leader import Answer, LeaderQuestion, ask_leaders
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.known_producers import ask_known_producers
from penstock.client.wire.connection import Connection
from penstock.errors import CoordinatorNotAvailableError, InvalidTxnStateError, TransactionalIdNotFoundError
from penstock.messages.produce import ProducerState
from penstock.messages.transactions.listing import EndHangingTransactionRequest, ListTransactionsRequest
from penstock.messages.transactions.transaction_apis import END_HANGING_TRANSACTION
from penstock.types import NO_LEADER, TopicPartition

TRANSACTION_STATE: Final = "__transaction_state"
OpenThere = tuple[TopicPartition, ProducerState]


async def find_hanging(
    cluster: ClusterClient,
    coordinators: Coordinators,
    partitions: Iterable[TopicPartition],
    open_before_ms: int,
    deadline_ms: int,
) -> list[HangingTransaction]:
    """The hanging transactions of these partitions whose last batch is older than `open_before_ms`, by partition."""
    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    known = await ask_known_producers(cluster, partitions, left_ms)
    old = [
        (tp, producer)
        for tp, producers in sorted(known.items())
        for producer in producers
        if producer.transaction_start_offset is not None and producer.last_append_ms < open_before_ms
    ]
    owners = await _owners(cluster, coordinators, {producer.producer_id for _, producer in old}, deadline_ms)
    return [_hanging(one, owners.get(one[1].producer_id)) for one in old if not _is_awaited(one, owners)]


async def end_hanging(
    cluster: ClusterClient, coordinators: Coordinators, partition: TopicPartition, start_offset: int, deadline_ms: int
) -> HangingTransaction:
    """Aborts the transaction that begins at this offset of the partition; what it was. InvalidTxnStateError if none is
    open there, or if its coordinator has it and will end it."""
    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    producers = (await ask_known_producers(cluster, (partition,), left_ms))[partition]
    found = next((one for one in producers if one.transaction_start_offset == start_offset), None)
    if found is None:
        raise InvalidTxnStateError(f"{partition} has no open transaction that begins at offset {start_offset}")
    one = partition, found
    owners = await _owners(cluster, coordinators, {found.producer_id}, deadline_ms)
    if _is_awaited(one, owners):
        owner = owners[found.producer_id]
        raise InvalidTxnStateError(
            f"transactional id {owner.transactional_id!r} is {owner.state} with {partition}: its coordinator, broker "
            f"{owner.coordinator_id}, will end it; abort the whole transaction by its id instead"
        )

    async def ask(
        connection: Connection, questions: Sequence[LeaderQuestion[ProducerState]], left_ms: int
    ) -> Sequence[Answer[None]]:
        (question,) = questions
        producer = question.wanted
        request = EndHangingTransactionRequest(
            question.partition, question.topic_id, producer.producer_id, producer.producer_epoch, start_offset
        )
        await connection.call(END_HANGING_TRANSACTION, request, min(left_ms, cluster.config.request_timeout_ms))
        return [Answer(question.partition, None, None)]

    topic_ids = {partition.topic: cluster.cache.topic_id(partition.topic)}
    left_ms = max(deadline_ms - cluster.clock.now_ms(), 1)
    await ask_leaders(cluster, {partition: found}, ask, left_ms, topic_ids)
    return _hanging(one, owners.get(found.producer_id))


async def _owners(
    cluster: ClusterClient, coordinators: Coordinators, producer_ids: Iterable[int], deadline_ms: int
) -> dict[int, TransactionDetails]:
    """The transactional ids of these producers."""
    wanted = tuple(sorted(producer_ids))
    if not wanted:
        return {}
    await _each_has_a_leader(cluster, deadline_ms)
    listed = await list_transactions(cluster, ListTransactionsRequest(producer_ids=wanted), deadline_ms)
    described = await describe_transactions(coordinators, [one.transactional_id for one in listed], deadline_ms)
    for one in described.values():
        if one.error is not None and not isinstance(one.error, TransactionalIdNotFoundError):
            raise one.error
    return {one.producer_id: one for one in described.values() if one.error is None}


async def _each_has_a_leader(cluster: ClusterClient, deadline_ms: int) -> None:
    """CoordinatorNotAvailableError for a partition of the transactions' topic without a leader: no broker lists what is
    in it. Where there is no such topic there is no coordinator."""
    for topic in await cluster.list_topics(deadline_ms, (TRANSACTION_STATE,)):
        lost = [one.partition for one in topic.partitions if one.leader_id == NO_LEADER or one.error is not None]
        if lost:
            raise CoordinatorNotAvailableError(
                f"{TRANSACTION_STATE}-{lost[0]} has no leader, so the transactions of {len(lost)} partitions have no"
                " coordinator that could be asked; they may be decided"
            )


def _is_awaited(one: OpenThere, owners: Mapping[int, TransactionDetails]) -> bool:
    """True if the coordinator of the producer has this transaction open, and so will end it."""
    partition, producer = one
    owner = owners.get(producer.producer_id)
    return owner is not None and partition in owner.partitions and producer.producer_epoch <= owner.producer_epoch


def _hanging(one: OpenThere, owner: TransactionDetails | None) -> HangingTransaction:
    partition, producer = one
    return HangingTransaction(
        partition=partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=-1 if producer.coordinator_epoch is None else producer.coordinator_epoch,
        start_offset=-1 if producer.transaction_start_offset is None else producer.transaction_start_offset,
        last_append_ms=producer.last_append_ms,
        transactional_id=None if owner is None else owner.transactional_id,
    )
