"""Consumers of a group share its topics, and go on where the group has committed. In virtual time."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from penstock import TopicPartition
from penstock.errors import (
    CommitFailedError,
    ConfigError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidTopicError,
    SubscriptionError,
)
from tests.support.group_stage import Callbacks, GroupStage, played

T = [TopicPartition("t", number) for number in range(8)]


def test_one_member_reads_everything_and_a_second_one_gets_its_share() -> None:
    async def story(stage: GroupStage) -> None:
        calls_a, calls_b = Callbacks(), Callbacks()
        a = await stage.member(calls_a)
        assert await stage.settle(a) == [40]
        b = await stage.member(calls_b)
        assert await stage.settle(a, b) == [0, 0], "what a has read is committed before it gives it up"
        assert (a.assignment(), b.assignment()) == ([T[0], T[2]], [T[1], T[3]]) or (
            (b.assignment(), a.assignment()) == ([T[0], T[2]], [T[1], T[3]])
        )
        assert [name for name, _ in calls_a.calls] == ["on_assigned", "on_revoked"]
        assert [name for name, _ in calls_b.calls] == ["on_assigned"]
        await a.close()
        await stage.settle(b)
        assert sorted(b.assignment()) == T[:4]
        assert calls_a.calls[-1][0] == "on_revoked" and calls_b.calls[-1][0] == "on_assigned"

    played(story)


def test_a_group_goes_on_where_it_has_committed() -> None:
    async def story(stage: GroupStage) -> None:
        async with stage.consumer(enable_auto_commit=False) as first:
            await first.subscribe(["t"])
            got: list[Any] = []
            while len(got) < 15:
                got += await first.poll(timeout_ms=500, max_records=15 - len(got))
            await first.commit()
        assert sum(stage.committed.values()) == 15
        second = await stage.member()
        assert await stage.settle(second) == [25]

    played(story)


def test_nothing_is_committed_between_polls_and_at_a_poll_only_what_earlier_ones_gave() -> None:
    async def story(stage: GroupStage) -> None:
        consumer = await stage.member(auto_commit_interval_ms=100)
        got: list[Any] = []
        while not got:
            got = await consumer.poll(timeout_ms=500, max_records=7)
        await asyncio.sleep(30)
        assert not stage.committed, "the user is still at work on them"
        await consumer.poll(timeout_ms=0, max_records=1)
        await asyncio.sleep(1)
        assert sum(stage.committed.values()) == 7

    played(story)


def test_a_loop_over_records_commits_what_is_done() -> None:
    async def story(stage: GroupStage) -> None:
        consumer = await stage.member(auto_commit_interval_ms=1_000)
        seen = 0
        async for _ in consumer:
            seen += 1
            await asyncio.sleep(0.5)
            if seen == 9:
                break
        await asyncio.sleep(5)
        assert 0 < sum(stage.committed.values()) < 9, "the last one may not be done yet"
        await consumer.close()
        assert sum(stage.committed.values()) == 9

    played(story)


def test_a_block_that_an_exception_ends_commits_what_polls_before_the_last_one_gave() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        with pytest.raises(ZeroDivisionError):
            async with stage.consumer() as consumer:
                await consumer.subscribe(["t"], **heard.callbacks())
                seen = 0
                async for _ in consumer:
                    seen += 1
                    if seen == 15:
                        1 / 0  # noqa: B018
        assert sum(stage.committed.values()) == 14 and not stage.coordinator.members
        assert heard.calls[-1][0] == "on_revoked", "who commits by himself is asked to"

    played(story)


def test_a_commit_in_on_revoked_is_in_time() -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer(enable_auto_commit=False)

        async def on_revoked(partitions: list[TopicPartition]) -> None:
            await a.commit({tp: await a.position(tp) for tp in partitions})

        await a.subscribe(["t"], on_revoked=on_revoked)
        assert await stage.settle(a) == [40]
        assert not stage.committed
        b = await stage.member()
        assert await stage.settle(a, b) == [0, 0]
        assert {str(tp): 10 for tp in b.assignment()}.items() <= stage.committed.items()

    played(story)


def test_a_commit_of_a_revoked_partition_is_refused() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(enable_auto_commit=False)
        await stage.settle(a)
        b = await stage.member()
        await stage.settle(a, b)
        gone = b.assignment()[0]
        with pytest.raises(CommitFailedError, match=f"{gone} is not assigned to this consumer"):
            await a.commit({gone: 10})
        with pytest.raises(CommitFailedError, match=f"{gone} is not assigned to this consumer"):
            a.commit_async({gone: 10})
        await a.commit({a.assignment()[0]: 4})

    played(story)


def test_a_commit_of_a_member_that_was_put_out_is_refused() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard, enable_auto_commit=False)
        await stage.settle(a)
        stage.coordinator.fence(stage.id_of(a))
        with pytest.raises(CommitFailedError, match="has put this member out"):
            await a.commit()
        assert await stage.settle(a) == [40], "it lost all, joined again, and reads from what is committed: nothing"
        assert [name for name, _ in heard.calls] == ["on_assigned", "on_lost", "on_assigned"]
        await a.commit()

    played(story)


def test_without_on_lost_a_loss_is_told_to_on_revoked() -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer(enable_auto_commit=False)
        refused: list[BaseException] = []

        async def on_revoked(partitions: list[TopicPartition]) -> None:
            try:
                await a.commit()
            except CommitFailedError as error:
                refused.append(error)

        await a.subscribe(["t"], on_revoked=on_revoked)
        await stage.settle(a)
        stage.coordinator.fence(stage.id_of(a))
        await stage.settle(a)
        assert len(refused) == 1 and "is no member of group 'g' now" in str(refused[0])

    played(story)


def test_a_member_that_does_not_poll_leaves_and_joins_again_when_it_does(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard, max_poll_interval_ms=60_000, enable_auto_commit=False)
        await stage.settle(a)
        await asyncio.sleep(55)
        assert stage.id_of(a) in stage.coordinator.members, "it is at work, and its heartbeats go on"
        await asyncio.sleep(10)
        assert not stage.coordinator.members
        assert "no poll for max_poll_interval_ms=60000" in caplog.text
        with pytest.raises(CommitFailedError, match="did not poll for max_poll_interval_ms"):
            await a.commit()
        assert await stage.settle(a) == [40]
        assert [name for name, _ in heard.calls] == ["on_assigned", "on_lost", "on_assigned"]

    played(story)


def test_a_poll_that_waits_is_a_sign_of_life() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(max_poll_interval_ms=2_000)
        await stage.settle(a)
        await a.poll(timeout_ms=60_000)
        assert stage.id_of(a) in stage.coordinator.members

    played(story)


def test_a_callback_that_takes_too_long_counts_as_time_without_a_poll() -> None:
    async def story(stage: GroupStage) -> None:
        async def on_assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(10)

        a = stage.consumer(max_poll_interval_ms=3_000)
        await a.subscribe(["t"], on_assigned=on_assigned)
        await a.poll(timeout_ms=5_000)
        assert not stage.coordinator.members

    played(story)


def test_a_callback_that_raises_ends_the_poll_and_the_change_is_made() -> None:
    async def story(stage: GroupStage) -> None:
        calls: list[str] = []

        def on_assigned(partitions: list[TopicPartition]) -> None:
            calls.append("assigned")
            raise ZeroDivisionError("mine")

        a = stage.consumer()
        await a.subscribe(["t"], on_assigned=on_assigned)
        with pytest.raises(ZeroDivisionError, match="mine"):
            await a.poll(timeout_ms=5_000)
        assert a.assignment() == T[:4]
        assert await stage.settle(a) == [40] and calls == ["assigned"]

    played(story)


def test_a_callback_that_raises_at_a_close_is_heard_of_and_the_consumer_is_closed() -> None:
    async def story(stage: GroupStage) -> None:
        def on_revoked(partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError("mine")

        a = stage.consumer()
        await a.subscribe(["t"], on_revoked=on_revoked)
        await stage.settle(a)
        with pytest.raises(ZeroDivisionError, match="mine"):
            await a.close()
        assert not stage.coordinator.members and sum(stage.committed.values()) == 40
        await a.close()

    played(story)


def test_a_poll_that_is_cancelled_in_a_callback_has_called_it_once() -> None:
    async def story(stage: GroupStage) -> None:
        calls: list[str] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            calls.append("assigned")
            await asyncio.sleep(100)

        a = stage.consumer()
        await a.subscribe(["t"], on_assigned=on_assigned)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await a.poll(timeout_ms=5_000)
        assert await stage.settle(a) == [40] and calls == ["assigned"]

    played(story)


def test_a_poll_that_is_cancelled_before_the_callback_calls_it_next_time() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard)
        await stage.settle(a)
        b = await stage.member()
        stage.coordinator.slow_ms["OffsetCommit"] = 2_000
        await b.poll(timeout_ms=1_500)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await a.poll(timeout_ms=5_000)  # its commit before the revocation is under way
        assert len(heard.calls) == 1
        stage.coordinator.slow_ms.clear()
        await stage.settle(a, b)
        assert [name for name, _ in heard.calls] == ["on_assigned", "on_revoked"]
        assert len(b.assignment()) == 2

    played(story)


def test_seek_and_pause_in_on_assigned_count() -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer()

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            await a.seek(partitions[0], 8)
            a.pause(partitions[1:])

        await a.subscribe(["t"], on_assigned=on_assigned)
        assert await stage.settle(a) == [2]
        a.resume(a.paused())
        assert await stage.settle(a) == [30]

    played(story)


@pytest.mark.parametrize("call", ["poll", "unsubscribe"])
def test_a_callback_cannot_call_what_would_wait_for_it(call: str) -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer()

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            await getattr(a, call)()

        await a.subscribe(["t"], on_assigned=on_assigned)
        with pytest.raises(Exception, match=f"{call} was called in a callback of a rebalance"):
            await a.poll(timeout_ms=5_000)

    played(story)


def test_more_members_than_partitions_have_nothing_and_wait() -> None:
    async def story(stage: GroupStage) -> None:
        consumers = [await stage.member() for _ in range(3)]
        await stage.settle(*consumers)
        assert sorted(len(c.assignment()) for c in consumers) == [0, 1, 1]
        idle = next(c for c in consumers if not c.assignment())
        assert "more members than partitions" in str((await idle.waiting_for())[0])
        busy = next(c for c in consumers if c.assignment())
        await busy.close()
        await stage.settle(*(c for c in consumers if c is not busy))
        assert len(idle.assignment()) == 1

    played(story, partitions=2)


def test_a_topic_that_appears_later_is_read_and_a_deleted_one_is_given_up() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = stage.consumer()
        await a.subscribe(["t", "later"], **heard.callbacks())
        assert await stage.settle(a) == [40]
        stage.create("later", 1, records=3)
        stage.coordinator.epoch += 1  # it has heard of it
        assert await stage.settle(a) == [3]
        stage.cluster.delete_topic("t")
        assert await stage.settle(a, rounds=40) == [0], "no error: the group takes it away"
        assert a.assignment() == [TopicPartition("later", 0)]
        assert heard.calls[-1] == ("on_revoked", ["t-0", "t-1", "t-2", "t-3"])

    played(story)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        assert await stage.settle(a) == [40]
        stage.cluster.delete_topic("t")
        stage.coordinator.offsets.clear()
        stage.create("t", 2, records=5)
        assert await stage.settle(a, rounds=20) == [10]
        assert a.assignment() == T[:2]

    played(story)


def test_a_pattern_reads_what_matches_and_topics_that_come_later() -> None:
    async def story(stage: GroupStage) -> None:
        stage.create("orders-eu", 1)
        a = stage.consumer()
        await a.subscribe(pattern="orders-.*")
        assert await stage.settle(a) == [10] and a.subscription() == ["orders-.*"]
        stage.create("orders-us", 1)
        stage.coordinator.epoch += 1
        assert await stage.settle(a) == [10]
        assert [tp.topic for tp in a.assignment()] == ["orders-eu", "orders-us"]
        await a.subscribe(["t"])
        assert await stage.settle(a) == [40] and {tp.topic for tp in a.assignment()} == {"t"}

    played(story)


def test_subscribe_and_assign_do_not_mix() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        with pytest.raises(SubscriptionError, match="unsubscribe\\(\\) before assign"):
            await a.assign([T[0]])
        await a.unsubscribe()
        assert not stage.coordinator.members
        await a.assign([T[0]])
        with pytest.raises(SubscriptionError, match="unsubscribe\\(\\) before subscribe"):
            await a.subscribe(["t"])
        await a.unsubscribe()
        assert a.assignment() == []
        await a.subscribe(["t"])
        assert await stage.settle(a) == [40]

    played(story)


def test_a_consumer_without_a_group_has_no_group_to_subscribe_or_commit_with() -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer(group_id=None)
        for call in (a.subscribe(["t"]), a.commit(), a.committed([T[0]])):
            with pytest.raises(SubscriptionError, match="make the consumer with group_id"):
                await call

    played(story)


def test_partitions_by_hand_begin_where_the_group_has_committed() -> None:
    async def story(stage: GroupStage) -> None:
        a = stage.consumer(enable_auto_commit=False)
        await a.assign(T[:2])
        await a.commit({T[0]: 6})
        b = stage.consumer()
        await b.assign(T[:2])
        assert await stage.settle(b) == [14]
        await b.close()
        assert stage.committed == {"t-0": 10, "t-1": 10}
        found = await a.committed(T[:3])
        assert found[T[0]] is not None and found[T[0]].offset == 10 and found[T[2]] is None

    played(story)


def test_commit_async_tells_in_a_poll_and_newer_offsets_win() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(enable_auto_commit=False)
        await stage.settle(a)
        heard: list[tuple[dict[str, int], object]] = []
        stage.coordinator.slow_ms["OffsetCommit"] = 200
        for offset in (1, 2, 3, 4):
            await asyncio.sleep(0.05)
            a.commit_async(
                {T[0]: offset}, lambda done, error: heard.append(({str(p): o.offset for p, o in done.items()}, error))
            )
        await asyncio.sleep(2)
        assert heard == [], "a callback is called by a poll"
        await a.poll()
        assert heard == [({"t-0": n}, None) for n in (1, 2, 3, 4)]
        assert stage.committed == {"t-0": 4} and len(stage.coordinator.commits) == 2, "those that wait are put together"

    played(story)


def test_a_close_waits_for_commits_that_are_on_their_way() -> None:
    async def story(stage: GroupStage) -> None:
        heard: list[object] = []
        a = await stage.member(enable_auto_commit=False)
        await stage.settle(a)
        stage.coordinator.slow_ms["OffsetCommit"] = 500
        a.commit_async({T[0]: 4}, lambda offsets, error: heard.append(error))
        await a.close()
        assert stage.committed == {"t-0": 4} and heard == [None]

    played(story)


def test_partitions_by_hand_are_not_committed_in_a_group_with_members() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        await stage.settle(a)
        b = stage.consumer()
        await b.assign([T[0]])
        with pytest.raises(CommitFailedError, match="the group has members, which alone commit"):
            await b.commit({T[0]: 1})

    played(story)


def test_a_coordinator_that_always_fences_is_not_stormed() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        await stage.settle(a)
        before = len(stage.network.asked)
        stage.coordinator.fail("ConsumerGroupHeartbeat", *[FencedMemberEpochError("no")] * 10_000)
        await stage.settle(a, rounds=120)  # a minute
        asked = [method for _, method in stage.network.asked[before:] if method.endswith("Heartbeat")]
        assert 50 < len(asked) < 90, "once a second, as the back-off says"

    played(story)


def test_an_error_that_no_code_expects_is_raised_by_a_poll_and_the_member_goes_on() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        await stage.settle(a)
        group = a._core.group
        assert group is not None
        member, on_answer = group.member, group.member.on_answer

        def broken(*args: Any) -> None:
            member.on_answer = on_answer  # type: ignore[method-assign]
            raise ZeroDivisionError("a bug")

        member.on_answer = broken  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await a.poll(timeout_ms=10_000)
        before = len(stage.coordinator.heartbeats)
        await stage.settle(a)
        assert len(stage.coordinator.heartbeats) > before + 2

    played(story)


def test_a_coordinator_that_moves_or_loads_is_found_and_waited_for() -> None:
    async def story(stage: GroupStage) -> None:
        heard = Callbacks()
        a = await stage.member(heard)
        await stage.settle(a)
        stage.coordinator.move(2)
        for api in ("ConsumerGroupHeartbeat", "OffsetCommit"):
            stage.coordinator.fail(api, CoordinatorLoadInProgressError(), CoordinatorNotAvailableError())
        await a.commit()
        stage.append("t", 0, 5)
        assert await stage.settle(a) == [5]
        assert [name for name, _ in heard.calls] == ["on_assigned"], "a change of coordinator is no rebalance"

    played(story)


def test_a_coordinator_that_hangs_is_left() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        await stage.settle(a)
        stage.network.hang(stage.cluster.endpoints[1])
        stage.coordinator.move(2)
        before = len(stage.coordinator.heartbeats)
        await asyncio.sleep(15)
        assert len(stage.coordinator.heartbeats) > before + 5
        stage.network.resume(stage.cluster.endpoints[1])

    played(story)


def test_a_static_member_comes_back_to_its_partitions() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(group_instance_id="i-1")
        await stage.settle(a)
        await a.close()
        assert [h.member_epoch for h in stage.coordinator.heartbeats][-1] == -2
        assert {h.instance_id for h in stage.coordinator.heartbeats} == {"i-1"}

    played(story)


def test_a_close_does_not_wait_long_for_a_coordinator_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(enable_auto_commit=False)
        await stage.settle(a)
        for node in (1, 2):
            stage.network.hang(stage.cluster.endpoints[node])
        began_ms = stage.clock.now_ms()
        await a.close()
        assert stage.clock.now_ms() - began_ms <= 4_000
        assert "the coordinator was not told that this member left" in caplog.text
        for node in (1, 2):
            stage.network.resume(stage.cluster.endpoints[node])

    played(story)


def test_cancelled_tasks_are_begun_anew_by_the_next_poll() -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member()
        await stage.settle(a)
        for task in asyncio.all_tasks():
            if "HeartbeatSender" in repr(task.get_coro()):
                task.cancel()
        await asyncio.sleep(0.1)
        before = len(stage.coordinator.heartbeats)
        await stage.settle(a)
        assert len(stage.coordinator.heartbeats) > before + 2

    played(story)


async def read_and_drop(stage: GroupStage) -> None:
    a = stage.consumer()
    await a.subscribe(["t"], on_revoked=lambda partitions: a.commit_async())  # it refers to its own consumer
    while not await a.poll(timeout_ms=500):
        pass
    stage.made.clear()


def test_a_consumer_that_is_dropped_leaves_and_commits_nothing() -> None:
    async def story(stage: GroupStage) -> None:
        await read_and_drop(stage)
        gc.collect()
        await asyncio.sleep(5)
        assert not stage.coordinator.members and not stage.committed

    played(story)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"group_id": ""}, "must be a str of 1 to 255 characters"),
        ({"group_id": "g" * 300}, "must be a str of 1 to 255 characters"),
        ({"group_id": 7}, "must be a str of 1 to 255 characters"),
        ({"client_rack": "r" * 256}, "client_rack has 256 characters; at most 255"),
        ({"group_id": None, "group_instance_id": "i"}, "group_instance_id='i' needs group_id, too"),
        ({"group_id": None, "enable_auto_commit": True}, "enable_auto_commit=True needs group_id"),
        ({"session_timeout_ms": 9}, "the brokers set it for all members of a group"),
    ],
)
def test_an_option_of_groups_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    async def story(stage: GroupStage) -> None:
        with pytest.raises(ConfigError, match=says):
            stage.consumer(**options)

    played(story)


@pytest.mark.parametrize(
    ("topics", "more", "error", "says"),
    [
        ("t", {}, TypeError, r"subscribe takes a list of topics, like \['t'\]"),
        ([], {}, ValueError, r"unsubscribe\(\) leaves the group"),
        (["a b"], {}, InvalidTopicError, "a b"),
        (["t"], {"pattern": "x"}, ValueError, "not to both"),
        (None, {"pattern": ""}, ValueError, "matches nothing"),
        (None, {"pattern": 7}, TypeError, "RE2"),
        (["t"], {"on_lost": 7}, TypeError, "on_lost=7 must be a function"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(topics: Any, more: Any, error: type[Exception], says: str) -> None:
    async def story(stage: GroupStage) -> None:
        with pytest.raises(error, match=says):
            await stage.consumer().subscribe(topics, **more)

    played(story)


@pytest.mark.parametrize(
    ("positions", "error", "says"),
    [
        ({T[0]: -1}, ValueError, "offset=-1"),
        ({T[0]: "7"}, TypeError, "write offset=7"),
        ([T[0]], TypeError, "positions must be a dict"),
        ({"t": 7}, TypeError, "a partition is TopicPartition"),
    ],
)
def test_a_commit_that_cannot_be_is_refused(positions: Any, error: type[Exception], says: str) -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(enable_auto_commit=False)
        await stage.settle(a)
        with pytest.raises(error, match=says):
            await a.commit(positions)

    played(story)


def test_a_failed_automatic_commit_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: GroupStage) -> None:
        a = await stage.member(auto_commit_interval_ms=100)
        await stage.settle(a, rounds=3)
        stage.append("t", 0, 1)
        await a.poll(timeout_ms=500)
        stage.coordinator.fail("OffsetCommit", GroupMaxSizeReachedError("no"))
        with caplog.at_level(logging.WARNING):
            await stage.settle(a, rounds=2)
        assert "group g: a commit:" in caplog.text

    played(story)


@pytest.mark.parametrize("call", ["poll", "__anext__"])
def test_a_consumer_of_a_group_that_reads_nothing_says_so_at_once(call: str) -> None:
    """It would poll nothing for ever; Kafka's raises IllegalStateException."""

    async def story(stage: GroupStage) -> None:
        async with stage.consumer() as consumer:
            with pytest.raises(SubscriptionError, match=r"reads nothing; subscribe\(\['orders'\]\) or assign"):
                await getattr(consumer, call)()
            await consumer.assign([T[0]])
            await getattr(consumer, call)()
            await consumer.unsubscribe()
            with pytest.raises(SubscriptionError, match="reads nothing"):
                await getattr(consumer, call)()

    played(story)
