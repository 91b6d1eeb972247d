"""A consumer is told what its group refuses, or cannot give yet, in words that help. In virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock import AsyncConsumer, TopicPartition
from penstock.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    InvalidTopicError,
    NetworkError,
    TimedOutError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResult
from tests.support.group_stage import Callbacks, GroupStage, played


def test_a_subscription_that_is_refused_changes_nothing_neither_do_its_callbacks() -> None:
    async def story(stage: GroupStage) -> None:
        a, found = await stage.member(), list[str]()
        await a.subscribe(["t"], on_revoked=lambda partitions: found.append("revoked"))
        assert await stage.settle(a) == [40]
        for refused in ("x", ["a b"]):
            with pytest.raises((TypeError, InvalidTopicError)):
                await a.subscribe(refused, on_revoked=lambda partitions: found.append("of nobody"))
        assert a.subscription() == ["t"] and len(a.assignment()) == 4
        await a.unsubscribe()
        assert found == ["revoked"]

    played(story)


def test_a_refusal_is_raised_by_polls_and_joining_is_tried_again() -> None:
    async def story(stage: GroupStage) -> None:
        stage.coordinator.fail("ConsumerGroupHeartbeat", *[GroupMaxSizeReachedError("it has 2 members")] * 2)
        a = await stage.member()
        for _ in range(2):
            with pytest.raises(GroupMaxSizeReachedError, match="it has 2 members"):
                await a.poll(timeout_ms=5_000)
        assert await stage.settle(a) == [40]

    played(story)


def test_a_silence_of_the_coordinator_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        assert await stage.settle(a) == [40]
        stage.coordinator.fail("ConsumerGroupHeartbeat", *[NetworkError("refused")] * 60)
        await a.poll(timeout_ms=120_000)

    with caplog.at_level(logging.INFO, "penstock.client.consumer.groups.heartbeat_sender"):
        played(story)
    silent, again = caplog.messages
    assert silent.startswith("group g: no heartbeat is answered for ") and "refused" in silent
    assert again == "group g: the coordinator answers again"


def test_brokers_that_are_away_are_no_connections_until_they_answer_again() -> None:
    async def story(stage: GroupStage) -> None:
        def connections(a: AsyncConsumer) -> float:
            return next(metric.value for metric in a.metrics() if metric.name == "connection-count")

        a = await stage.member()
        assert await stage.settle(a) == [40] and connections(a) == 2
        for node_id in stage.cluster.node_ids:
            stage.cluster.stop_node(node_id)
        await a.poll(timeout_ms=30_000)
        assert connections(a) == 0
        for node_id in stage.cluster.node_ids:
            stage.cluster.start_node(node_id)
        await a.poll(timeout_ms=30_000)
        assert connections(a) == 2

    played(story)


@pytest.mark.parametrize("polls_again", [True, False])
def test_records_before_a_pattern_that_is_refused_are_committed(polls_again: bool) -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard)
        assert await stage.settle(a) == [40]
        stage.coordinator.offsets.clear()
        await a.subscribe(pattern="(", **heard.callbacks())
        if polls_again:
            with pytest.raises(InvalidRegularExpressionError):
                await a.poll(timeout_ms=5_000)
            assert heard.calls[-1][0] == "on_revoked"
        else:
            await asyncio.sleep(1)
        await a.close()
        assert sum(stage.committed.values()) == 40
        assert [name for name, _ in heard.calls] == ["on_assigned", "on_revoked"]
        assert stage.coordinator.heartbeats[-1].member_epoch == -1

    played(story)


def test_what_a_member_that_was_replaced_had_is_lost() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard)
        await stage.settle(a)
        stage.coordinator.fail("ConsumerGroupHeartbeat", FencedInstanceIdError("another one has it"))
        await asyncio.sleep(6)
        with pytest.raises(FencedInstanceIdError):
            await a.poll(timeout_ms=5_000)
        assert heard.calls[-1][0] == "on_lost"

    played(story)


def test_a_topic_that_does_not_exist_is_told_once_and_read_once_it_does(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer()
        await a.subscribe(["t", "later", "soon"])
        await a.poll(timeout_ms=500)
        stage.create("soon", 1)
        await stage.settle(a)
        await a.subscribe(["t", "later"])
        await stage.settle(a, rounds=20)
        warnings = [one.getMessage() for one in caplog.records if "does not exist" in one.getMessage()]
        assert warnings == [
            "group g: topic later does not exist: it is read once it does (penstock topics create later)"
        ]
        stage.create("later", 1)
        assert sum(await stage.settle(a, rounds=20)) == 10

    played(story)


def test_a_partition_that_the_group_has_not_given_yet_is_no_matter_of_assign() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        for call in (a.seek(TopicPartition("t", 0), 3), a.lag(TopicPartition("t", 0))):
            with pytest.raises(UnknownTopicOrPartitionError, match="gives partitions to members inside polls"):
                await call
        b = stage.consumer(group_id=None)
        with pytest.raises(UnknownTopicOrPartitionError, match="assign it first"):
            await b.seek(TopicPartition("t", 0), 3)

    played(story)


@pytest.mark.parametrize("of_the_partition", [True, False])
def test_a_commit_tells_why_it_was_refused_when_time_is_over_before_the_next_answer(
    of_the_partition: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(enable_auto_commit=False, request_timeout_ms=5_000)
        await stage.settle(a)
        refusal = CoordinatorNotAvailableError("the disk is full")

        def refuse(request: OffsetCommitRequest) -> OffsetCommitResponse:
            stage.coordinator.slow_ms["OffsetCommit"] = 60_000
            if not of_the_partition:
                raise refusal
            return OffsetCommitResponse(
                tuple(OffsetCommitResult(part.partition, refusal) for part in request.partitions)
            )

        monkeypatch.setattr(stage.coordinator, "_commit", refuse)
        with pytest.raises(TimedOutError, match="not committed in time; the last error: the disk is full; the last"):
            await a.commit()
        stage.coordinator.slow_ms.clear()
        monkeypatch.undo()
        await a.commit()

    played(story)
