"""A group's coordinator that was deposed sends no consumer back behind what this program has committed."""

from __future__ import annotations

import pytest

from penstock import AsyncProducer, TopicPartition
from penstock.errors import StaleMemberEpochError
from penstock.messages.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetFetchRequest
from tests.support.fake_transactions import FakeTransactions
from tests.support.group_stage import GroupStage, played
from tests.unit.client.producer.transactions.test_offsets_in_transactions import member, run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def asked_as(stage: GroupStage, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Who asks for committed offsets: member id and epoch."""
    who: list[tuple[str, int]] = []
    before = stage.coordinator._fetch

    def fetch(request: OffsetFetchRequest) -> object:
        who.extend((group.member_id, group.member_epoch) for group in request.groups)
        return before(request)

    monkeypatch.setattr(stage.coordinator, "_fetch", fetch)
    return who


def test_a_consumer_goes_back_to_no_offset_before_those_that_its_transactions_have_committed() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = stage.consumer(enable_auto_commit=False)
        await consumer.assign([T0, T1])
        assert await stage.settle(consumer) == [20]
        async with producer.transaction() as t:
            await t.send_offsets(consumer, {T0: 7, T1: 7})
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 4)  # and of the other one it knows nothing
        await consumer.seek_to_committed()
        assert [await consumer.position(tp) for tp in (T0, T1)] == [7, 7]
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 9)
        await consumer.seek_to_committed()
        assert await consumer.position(T0) == 9, "another program went on"

    run(story)


def test_what_an_aborted_transaction_would_have_committed_holds_nobody() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 4)
        with pytest.raises(KeyError):
            async with producer.transaction() as t:
                await t.send_offsets(consumer)
                raise KeyError
        await consumer.seek_to_committed(T0)
        assert await consumer.position(T0) == 4

    run(story)


def test_a_consumer_that_is_closed_does_not_disturb_the_commit_of_its_positions() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
            await consumer.close()
        assert transactions.offsets == {T0: 10, T1: 10}

    run(story)


def test_a_consumer_asks_the_broker_that_has_taken_its_producers_commit() -> None:
    """Other brokers may know of the old coordinator alone."""

    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = stage.consumer(enable_auto_commit=False)
        await consumer.assign([T0])
        assert await stage.settle(consumer) == [10]
        stage.coordinator.move(2)
        transactions.move(2)
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 10)
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
        looks = 0

        def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            nonlocal looks
            looks += 1
            raise AssertionError("it is known")

        stage.coordinator._find = find  # type: ignore[method-assign]
        await consumer.committed([T0])
        assert looks == 0

    run(story)


def test_a_member_says_who_it_is_and_in_which_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: GroupStage) -> None:
        consumer = await stage.member(enable_auto_commit=False)
        await stage.settle(consumer)
        who = asked_as(stage, monkeypatch)
        epoch = stage.coordinator.members[stage.id_of(consumer)].epoch
        await consumer.seek_to_committed()
        assert who == [(stage.id_of(consumer), epoch)]

    played(story, partitions=2)


def test_a_member_whose_epoch_is_stale_asks_again_in_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: GroupStage) -> None:
        consumer = await stage.member(enable_auto_commit=False)
        await stage.settle(consumer)
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 4)
        stage.coordinator.fail("OffsetFetch", StaleMemberEpochError("the group has gone on"))
        await consumer.seek_to_committed(T0)
        assert await consumer.position(T0) == 4

    played(story, partitions=2)


@pytest.mark.parametrize("by_hand", [True, False])
def test_one_that_is_no_member_asks_as_anybody_does(by_hand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: GroupStage) -> None:
        consumer = stage.consumer(enable_auto_commit=False)
        if by_hand:
            await consumer.assign([T0])
        else:
            await consumer.subscribe(["t"])
            await stage.settle(consumer)
            stage.coordinator.fence(stage.id_of(consumer))
        who = asked_as(stage, monkeypatch)
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 4)
        committed = (await consumer.committed([T0]))[T0]
        assert committed is not None and committed.offset == 4
        assert who[-1] == ("", -1)

    played(story, partitions=2)
