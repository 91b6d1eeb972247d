"""Promises of a broker about offsets that transactions commit: the transaction is asked for first, a producer's commits
keep their order, and a marker ends what waits, over real logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.groups.coordinator import transactional_offsets
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ResourceExhaustedError,
    TransactionAbortableError,
    TransactionCoordinatorFencedError,
    UnstableOffsetCommitError,
)
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetFetchGroup, OffsetFetchRequest
from penstock.messages.transactions.markers import TxnMarker
from penstock.messages.transactions.producers import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.types import TopicPartition
from tests.support.group_broker import ME, OTHER, GroupBroker

PLACE = TopicPartition("t", 0)
Scenario = Callable[[GroupBroker], Awaitable[None]]


@asynccontextmanager
async def serving() -> AsyncIterator[GroupBroker]:
    broker = GroupBroker(partitions=1)
    broker.make_topic(1)
    await broker.active()
    try:
        yield broker
    finally:
        await broker.stop()


def played(scenario: Scenario) -> None:
    async def main() -> None:
        async with serving() as broker:
            await scenario(broker)

    asyncio.run(main())


def commit(offset: int, epoch: int = 0, adds_group: bool = True, producer_id: int = 7) -> TxnOffsetCommitRequest:
    places = (OffsetCommitPartition(PLACE, offset),)
    return TxnOffsetCommitRequest("tx", "g", producer_id, epoch, places, adds_group=adds_group)


async def fetched(broker: GroupBroker, require_stable: bool = False) -> Any:
    """The offset, or the error."""
    asked = OffsetFetchRequest((OffsetFetchGroup("g", (PLACE,)),), require_stable)
    (group,) = (await broker.answered(broker.submit_each(asked))).groups
    assert group.error is None, group.error
    (one,) = group.partitions
    return one.error or one.offset


async def marked(broker: GroupBroker, epoch: int, is_committed: bool = True, **fields: Any) -> ApiError | None:
    heard: list[ApiError | None] = []
    marker = TxnMarker(7, epoch, is_committed, fields.pop("coordinator_epoch", 3), (), fields.pop("version", 2))
    broker.coordinator.write_marker(broker.partition(0), marker, heard.append)
    await broker.until(lambda: heard)
    return heard[0]


async def moved_away_and_back(broker: GroupBroker) -> None:
    broker.elect(OTHER, 0)
    await broker.until(lambda: not list(broker.coordinator.shards))
    broker.elect(ME, 0)
    await broker.active()


def test_offsets_wait_for_the_transactions_coordinator_and_then_for_the_marker() -> None:
    async def scenario(broker: GroupBroker) -> None:
        first = broker.submit(commit(5))
        (question,) = broker.verification.open
        assert question.in_transaction == ("tx", 7, 0, False) and not first.is_complete
        broker.verification.answer()
        assert await broker.answered(first) == TxnOffsetCommitResponse((first.response.partitions[0],))
        assert isinstance(await broker.answered(broker.submit(commit(6))), TxnOffsetCommitResponse)
        assert broker.verification.open == [], "the log has its transaction"
        assert await fetched(broker) == -1
        assert isinstance(await fetched(broker, require_stable=True), UnstableOffsetCommitError)
        assert await marked(broker, 1) is None
        assert await fetched(broker, require_stable=True) == 6
        broker.submit(commit(9, epoch=1))
        assert len(broker.verification.open) == 1, "it is another transaction"

    played(scenario)


def test_who_added_the_group_itself_is_only_looked_for() -> None:
    async def scenario(broker: GroupBroker) -> None:
        broker.submit(commit(5, adds_group=False))
        assert broker.verification.open[0].in_transaction.verify_only

    played(scenario)


def test_without_verification_who_added_the_group_itself_is_not_looked_for() -> None:
    async def scenario(broker: GroupBroker) -> None:
        broker.verification.verifies = False
        assert isinstance(await broker.answered(broker.submit(commit(5, adds_group=False))), TxnOffsetCommitResponse)
        broker.submit(commit(5, producer_id=8))
        assert [question.in_transaction.producer_id for question in broker.verification.open] == [8]

    played(scenario)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (TransactionAbortableError(), TransactionAbortableError),
        (InvalidProducerEpochError(), InvalidProducerEpochError),
        (ConcurrentTransactionsError(), ConcurrentTransactionsError),
        (NotEnoughReplicasError(), CoordinatorNotAvailableError),
        (NotLeaderOrFollowerError(), NotCoordinatorError),
    ],
)
def test_what_the_transactions_coordinator_refuses_is_not_written(said: ApiError, answered: type[ApiError]) -> None:
    async def scenario(broker: GroupBroker) -> None:
        refused = broker.submit(commit(5))
        broker.verification.answer(said)
        assert isinstance(await broker.answered(refused), answered)
        assert broker.partition(0).log.log_end_offset == 0

    played(scenario)


def test_the_commits_of_a_producer_keep_their_order() -> None:
    async def scenario(broker: GroupBroker) -> None:
        commits = [broker.submit(commit(offset)) for offset in (5, 6, 7)]
        later = broker.submit(commit(8, epoch=1))
        other = broker.submit(commit(1, producer_id=8))
        assert [one.in_transaction.producer_id for one in broker.verification.open] == [7, 8]
        broker.verification.answer()
        for request in commits:
            assert isinstance(await broker.answered(request), TxnOffsetCommitResponse)
        assert not later.is_complete and not other.is_complete
        assert await marked(broker, 1) is None
        assert await fetched(broker) == 7
        broker.verification.answer()
        broker.verification.answer()
        assert isinstance(await broker.answered(later), TxnOffsetCommitResponse)
        assert isinstance(await broker.answered(other), TxnOffsetCommitResponse)

    played(scenario)


def test_a_refusal_is_for_one_commit_and_those_behind_it_ask_again() -> None:
    async def scenario(broker: GroupBroker) -> None:
        first, second = broker.submit(commit(5)), broker.submit(commit(6))
        broker.verification.answer(ConcurrentTransactionsError())
        assert isinstance(await broker.answered(first), ConcurrentTransactionsError)
        broker.verification.answer()
        assert isinstance(await broker.answered(second), TxnOffsetCommitResponse)

    played(scenario)


def test_so_many_may_wait_behind_one_and_no_more() -> None:
    async def scenario(broker: GroupBroker) -> None:
        waiting = [broker.submit(commit(offset)) for offset in range(102)]
        assert isinstance(await broker.answered(waiting[-1]), ResourceExhaustedError)
        broker.verification.answer()
        for request in waiting[:-1]:
            assert isinstance(await broker.answered(request), TxnOffsetCommitResponse)

    played(scenario)


def test_commits_of_one_party_that_wait_leave_places_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_offsets, "WAITING_MAX", 6)

    async def scenario(broker: GroupBroker) -> None:
        tenant, victim = (broker.caller._replace(principal=f"User:{name}") for name in ("tenant", "victim"))
        broker.caller = tenant
        waiting = [broker.submit(commit(5, producer_id=producer)) for producer in (7, 8, 9)]
        refused = await broker.answered(broker.submit(commit(6, producer_id=9)))
        assert isinstance(refused, ResourceExhaustedError) and "of User:tenant" in str(refused)
        broker.caller = victim
        waiting.append(broker.submit(commit(5, producer_id=10)))
        while broker.verification.open:
            broker.verification.answer()
        for request in waiting:
            assert isinstance(await broker.answered(request), TxnOffsetCommitResponse)
        broker.caller = tenant
        assert not broker.submit(commit(5, producer_id=11)).is_complete, "they wait no more"

    played(scenario)


def test_a_broker_that_stops_answers_those_who_wait() -> None:
    async def main() -> None:
        async with serving() as broker:
            waiting = [broker.submit(commit(5)), broker.submit(commit(6))]
        for request in waiting:
            assert isinstance(await broker.answered(request), NotCoordinatorError)
        assert broker.verification.open == []

    asyncio.run(main())


def test_a_marker_is_written_once_and_one_of_an_earlier_coordinator_not_at_all() -> None:
    async def scenario(broker: GroupBroker) -> None:
        answered = broker.submit(commit(5))
        broker.verification.answer()
        await broker.answered(answered)
        assert await marked(broker, 1, is_committed=False) is None
        end = broker.partition(0).log.log_end_offset
        assert await marked(broker, 1, is_committed=False) is None
        assert isinstance(await marked(broker, 1, coordinator_epoch=2), TransactionCoordinatorFencedError)
        assert await marked(broker, 0, version=1) is None, "its log is past it: it counts as written"
        assert broker.partition(0).log.log_end_offset == end and await fetched(broker, require_stable=True) == -1

    played(scenario)


def test_a_marker_for_a_partition_that_is_not_led_or_loads_is_to_be_sent_again() -> None:
    async def scenario(broker: GroupBroker) -> None:
        broker.elect(OTHER, 0)
        await broker.until(lambda: not list(broker.coordinator.shards))
        assert isinstance(await marked(broker, 1), NotLeaderOrFollowerError)
        async with broker.loads_held():
            broker.elect(ME, 0)
            await broker.until(lambda: list(broker.coordinator.shards))
            assert isinstance(await marked(broker, 1), NotLeaderOrFollowerError)
        await broker.active()
        assert await marked(broker, 1) is None

    played(scenario)


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_next_leader_knows_what_waits_and_what_the_marker_said(is_committed: bool) -> None:
    async def scenario(broker: GroupBroker) -> None:
        answered = broker.submit(commit(5))
        broker.verification.answer()
        await broker.answered(answered)
        await moved_away_and_back(broker)
        assert isinstance(await fetched(broker, require_stable=True), UnstableOffsetCommitError)
        assert await marked(broker, 1, is_committed) is None
        await moved_away_and_back(broker)
        assert await fetched(broker, require_stable=True) == (5 if is_committed else -1)

    played(scenario)
