"""A consumer's positions are committed with the records that were made of what it has read, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncConsumer, AsyncProducer, TopicPartition
from penstock.errors import (
    ClientClosedError,
    CommitFailedError,
    CoordinatorLoadInProgressError,
    FencedMemberEpochError,
    IllegalGenerationError,
    NetworkError,
    ProducerFencedError,
    StaleMemberEpochError,
    SubscriptionError,
    TransactionAbortedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.messages.transactions.transaction_apis import TXN_OFFSET_COMMIT
from penstock.types import CommittedOffset
from tests.support.client_environment import fake_environment
from tests.support.fake_transactions import FakeTransactions
from tests.support.group_stage import GroupStage, played
from tests.support.late_answers import cut_off_after

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Story = Callable[[GroupStage, FakeTransactions, AsyncProducer], Awaitable[None]]


def run(story: Story, **options: Any) -> None:
    """The topics "t" to read, with two partitions, and "out" to write to."""

    async def with_producer(stage: GroupStage) -> None:
        stage.create("out", 1, records=0)
        transactions = stage.cluster.transactions = FakeTransactions(stage.cluster)
        environment = fake_environment(stage.network, 99)
        given = {"transactional_id": "tx", "linger_ms": 0, "retry_backoff_ms": 1, "max_block_ms": 10_000, **options}
        async with AsyncProducer(stage.cluster.bootstrap, environment=environment, **given) as producer:
            await story(stage, transactions, producer)

    played(with_producer, partitions=2)


async def member(stage: GroupStage, **options: Any) -> AsyncConsumer:
    """It has read all twenty records."""
    consumer = await stage.member(enable_auto_commit=False, **options)
    assert await stage.settle(consumer) == [20]
    return consumer


def test_positions_count_when_the_transaction_is_committed() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage, group_instance_id="one")
        async with producer.transaction() as t:
            await t.send("out", b"made")
            await t.send_offsets(consumer)
            assert transactions.offsets == {}
        assert transactions.offsets == {T0: 10, T1: 10}
        (request,) = transactions.commits
        assert (request.group_id, request.transactional_id, request.adds_group) == ("g", "tx", True)
        assert (request.member_id, request.group_instance_id) == (stage.id_of(consumer), "one")
        assert request.member_epoch == stage.coordinator.members[request.member_id].epoch
        assert (request.producer_id, request.producer_epoch) == (transactions.ends[0].producer_id, 0)
        assert stage.coordinator.commits == []

    run(story)


def test_positions_of_an_aborted_transaction_do_not_count() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        with pytest.raises(KeyError):
            async with producer.transaction() as t:
                await t.send_offsets(consumer)
                raise KeyError
        assert transactions.offsets == {} and transactions.ends[0].is_committed is False

    run(story)


def test_the_coordinator_is_told_of_a_transaction_that_has_offsets_alone() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        await producer.begin_transaction()
        await producer.send_offsets(consumer, {T0: 7, T1: CommittedOffset(3, 1, "text")})
        await producer.commit_transaction()
        assert transactions.offsets == {T0: 7, T1: 3}
        assert transactions.commits[0].partitions[1].metadata == "text"

    run(story)


def test_a_consumer_that_assigns_by_itself_is_no_member() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = stage.consumer(enable_auto_commit=False)
        await consumer.assign([T0])
        assert await stage.settle(consumer) == [10]
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
        assert transactions.offsets == {T0: 10}
        assert (transactions.commits[0].member_id, transactions.commits[0].member_epoch) == ("", -1)

    run(story)


@pytest.mark.parametrize(
    "error", [NetworkError("lost"), CoordinatorLoadInProgressError(), UnknownTopicOrPartitionError("not heard yet")]
)
def test_what_passes_is_asked_again(error: Any) -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.fail("TxnOffsetCommit", error)
        transactions.partition_errors.append(error)
        transactions.lose("TxnOffsetCommit")
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
        assert transactions.offsets == {T0: 10, T1: 10}

    run(story)


def test_a_member_whose_epoch_is_stale_learns_the_new_one_and_goes_on() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        stage.coordinator.epoch += 1
        for _ in range(2):
            transactions.partition_errors.append(StaleMemberEpochError())
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
        epochs = [request.member_epoch for request in transactions.commits]
        assert epochs[-1] == epochs[0] + 1 and transactions.offsets == {T0: 10, T1: 10}

    run(story)


@pytest.mark.parametrize("error", [UnknownMemberIdError(), FencedMemberEpochError(), IllegalGenerationError()])
def test_a_group_that_has_gone_on_aborts_the_transaction(error: Any) -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.partition_errors.append(error)
        with pytest.raises(TransactionAbortedError, match="another member reads again") as caught:
            async with producer.transaction() as t:
                await t.send("out", b"made")
                await t.send_offsets(consumer)
        assert isinstance(caught.value.__cause__, CommitFailedError)
        assert transactions.offsets == {} and not any(end.is_committed for end in transactions.ends)
        async with producer.transaction() as t:
            await t.send_offsets(consumer)
        assert transactions.offsets == {T0: 10, T1: 10}

    run(story)


def test_a_member_that_was_put_out_and_knows_it_commits_nothing() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        stage.coordinator.fence(stage.id_of(consumer))
        await asyncio.sleep(3)
        with pytest.raises(TransactionAbortedError):
            async with producer.transaction() as t:
                await t.send_offsets(consumer, {})
                await t.send_offsets(consumer)
        assert transactions.commits == []

    run(story)


def test_a_coordinator_that_stays_away_aborts_the_transaction_in_time() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.fail("TxnOffsetCommit", *[CoordinatorLoadInProgressError()] * 10_000)
        with pytest.raises(TransactionAbortedError, match="in time"):
            async with producer.transaction() as t:
                await t.send_offsets(consumer)

    run(story, max_block_ms=1_000)


def test_why_offsets_were_refused_is_told_when_time_is_over_before_the_next_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.fail("TxnOffsetCommit", CoordinatorLoadInProgressError("the disk is full"))
        cut_off_after(1, TXN_OFFSET_COMMIT, monkeypatch)
        with pytest.raises(TransactionAbortedError, match=r"the disk is full; the last attempt had .* is late"):
            async with producer.transaction() as t:
                await t.send_offsets(consumer)

    run(story, max_block_ms=1_000)


def test_a_fenced_producer_is_told_so_by_the_groups_coordinator() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.fail("TxnOffsetCommit", ProducerFencedError("newer"))
        with pytest.raises(ProducerFencedError, match="newer"):
            async with producer.transaction() as t:
                await t.send_offsets(consumer)

    run(story)


def test_offsets_that_were_interrupted_cannot_be_committed() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await member(stage)
        transactions.hang("TxnOffsetCommit")
        await producer.begin_transaction()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await producer.send_offsets(consumer)
        with pytest.raises(TransactionAbortedError, match="send_offsets was interrupted"):
            await producer.commit_transaction()
        await producer.abort_transaction()

    run(story)


def test_a_transaction_whose_positions_were_refused_cannot_be_committed_without_them() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        gone = await member(stage)
        await gone.unsubscribe()
        consumer, lost = await member(stage), TopicPartition("t", 2)
        for refuse, error in (
            (lambda: producer.send_offsets(gone), CommitFailedError),
            (lambda: producer.send_offsets(consumer, {lost: 5}), CommitFailedError),
            (lambda: producer.send_offsets(consumer, {T0: -1}), ValueError),
            (lambda: producer.send_offsets(consumer), ClientClosedError),
        ):
            await producer.begin_transaction()
            await producer.send("out", b"made of the records")
            with pytest.raises(error):
                await refuse()
            with pytest.raises(TransactionAbortedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            if error is ValueError:
                await consumer.close()
        assert transactions.commits == []

    run(story)


def test_a_consumer_that_commits_by_itself_or_has_no_group_is_refused() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        for options, says in (({}, "enable_auto_commit=False"), ({"group_id": None}, "group_id='...'")):
            consumer = stage.consumer(**options)
            with pytest.raises(SubscriptionError, match=says):
                async with producer.transaction() as t:
                    await t.send_offsets(consumer)

    run(story)


def test_an_offset_of_an_undecided_transaction_is_waited_for() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = stage.consumer()
        before = stage.coordinator.answer_offset
        decided = asyncio.Event()

        def answer(tp: TopicPartition, *, require_stable: bool) -> Any:
            assert require_stable
            return before(tp, require_stable=require_stable) if decided.is_set() else UnstableOffsetCommitError()

        stage.coordinator.answer_offset = answer  # type: ignore[method-assign]
        asyncio.get_running_loop().call_later(5, decided.set)
        began = asyncio.get_running_loop().time()
        assert await consumer.committed([T0]) == {T0: None}
        assert asyncio.get_running_loop().time() - began >= 5

    run(story)


def test_after_an_abort_the_consumer_goes_back_to_what_is_committed() -> None:
    async def story(stage: GroupStage, transactions: FakeTransactions, producer: AsyncProducer) -> None:
        consumer = await stage.member(enable_auto_commit=False)
        stage.coordinator.offsets[T0] = OffsetCommitPartition(T0, 4)
        assert await stage.settle(consumer) == [16]
        await consumer.seek_to_committed()
        assert await consumer.position(T0) == 4
        assert await stage.settle(consumer) == [16], "of the other one nothing is committed: from its beginning on"
        await consumer.seek_to_committed(T0)
        assert await stage.settle(consumer) == [6]
        with pytest.raises(UnknownTopicOrPartitionError, match="is not assigned"):
            await consumer.seek_to_committed(TopicPartition("out", 0))

    run(story)
