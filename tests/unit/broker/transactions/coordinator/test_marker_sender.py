"""Promises of the sender of markers: each partition until it has its own, and none holds up another transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.transactions.coordinator import marker_calls
from broker.transactions.coordinator.marker_sender import FAILING_ATTEMPTS
from metadata.records import RegisterBrokerRecord, UnregisterBrokerRecord
from penstock.errors import ApiError, NotEnoughReplicasError, TransactionCoordinatorFencedError
from penstock.types import NO_LEADER, TopicPartition
from tests.support.marker_leaders import Leaders, T
from tests.support.virtual_time import run_virtual

Scenario = Callable[[Leaders], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        leaders = Leaders()
        try:
            await scenario(leaders)
        finally:
            await leaders.sender.stop()

    run_virtual(main())


def test_each_leader_gets_the_markers_of_its_partitions_in_one_call() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.send("a", 0, 1, 3)
        leaders.send("b", 3, 4, producer_id=8, is_committed=False)
        await asyncio.sleep(0.01)
        assert sorted(leaders.ended) == ["a", "b"]
        assert sorted(broker_id for broker_id, _ in leaders.calls) == [1, 2]
        assert sorted(leaders.written) == [
            ("7 commit", T[0]),
            ("7 commit", T[1]),
            ("7 commit", T[3]),
            ("8 abort", T[3]),
            ("8 abort", T[4]),
        ]
        assert (leaders.sender.open_partitions, leaders.sender.oldest_ms, leaders.sender.written) == (0, 0, 5)

    run(scenario)


def test_a_transaction_without_partitions_ends_in_a_later_turn_of_the_loop() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.send("a")
        assert not leaders.ended
        await asyncio.sleep(0)
        assert leaders.ended == ["a"] and not leaders.calls

    run(scenario)


def test_what_comes_during_a_call_is_one_call_after_it() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.send("first", 0)
        await asyncio.sleep(0.001)
        for number in range(50):
            leaders.send(f"txn-{number}", 0, 3, producer_id=100 + number)
        await asyncio.sleep(0.01)
        assert len(leaders.ended) == 51 and [len(request.markers) for _, request in leaders.calls] == [1, 50]

    run(scenario)


def test_a_call_has_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_calls, "PARTITIONS_MAX", 3)

    async def scenario(leaders: Leaders) -> None:
        for number in range(4):
            leaders.send(f"txn-{number}", 0, 3, producer_id=number)
        await asyncio.sleep(0.1)
        sizes = [sum(len(marker.partitions) for marker in request.markers) for _, request in leaders.calls]
        assert len(leaders.ended) == 4 and sizes == [3, 3, 2] and len(leaders.written) == len(set(leaders.written)) == 8

    run(scenario)


@pytest.mark.parametrize("error", [NotEnoughReplicasError("isr"), TransactionCoordinatorFencedError("stale")])
def test_a_partition_that_fails_is_asked_again_alone_and_for_ever(error: ApiError) -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.say = lambda broker_id, partition: error if partition == T[3] else None
        leaders.send("stuck", 0, 3)
        await asyncio.sleep(60)
        for number in range(20):
            leaders.send(f"txn-{number}", 0, 1, producer_id=number)
            await asyncio.sleep(0.01)
        assert len(leaders.ended) == 20 and "stuck" not in leaders.ended
        assert leaders.written.count(("7 commit", T[0])) == 2, "of the stuck one and of txn-7, each once"
        assert (leaders.sender.failing, leaders.sender.open_partitions) == (1, 1)
        assert leaders.sender.failures > FAILING_ATTEMPTS and leaders.sender.oldest_ms >= 60_000
        leaders.say = lambda broker_id, partition: None
        await asyncio.sleep(2)
        assert "stuck" in leaders.ended and leaders.sender.failing == leaders.sender.open_partitions == 0

    run(scenario)


def test_a_broker_that_is_dead_holds_up_its_own_partitions_alone_until_another_leads() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.dead = {1}
        leaders.send("a", 0, 1)
        await asyncio.sleep(5)
        leaders.send("b", 1, 2, producer_id=8)
        await asyncio.sleep(0.01)
        assert leaders.ended == ["b"]
        leaders.elect(0, 3)
        await asyncio.sleep(0.01)
        assert leaders.ended == ["b", "a"], "at once, and not after the back-off"

    run(scenario)


def test_a_call_that_hangs_is_left_to_itself_when_another_leads() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.hanging = {1}
        leaders.send("a", 0)
        await asyncio.sleep(1)
        leaders.elect(0, 2)
        await asyncio.sleep(0.01)
        assert leaders.ended == ["a"]
        await asyncio.sleep(60)
        assert leaders.ended == ["a"] and leaders.sender.failures == 0

    run(scenario)


def test_a_slow_partition_holds_up_nothing_that_comes_later_to_its_broker() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.slow = {T[3]}
        leaders.send("slow", 3)
        await asyncio.sleep(0.2)
        for number in range(20):
            leaders.send(f"txn-{number}", 0, producer_id=number)
            leaders.send(f"behind-{number}", 3, producer_id=100 + number)
            await asyncio.sleep(0.05)
        assert [name for name in leaders.ended if name.startswith("txn")] == [f"txn-{number}" for number in range(20)]
        assert len(leaders.ended) == 20
        leaders.slow = set()
        await asyncio.sleep(6)
        assert len(leaders.ended) == 41 and len(leaders.written) == len(set(leaders.written))

    run(scenario)


def test_a_broker_that_hangs_has_a_bounded_number_of_calls() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.hanging = {1}
        for number in range(200):
            leaders.send(f"txn-{number}", 0 if number % 2 else 3, producer_id=number)
            await asyncio.sleep(0.01)
        assert len(leaders.calls) <= 2 * marker_calls.LATE_MAX
        leaders.hanging = set()
        await asyncio.sleep(60)
        assert len(leaders.ended) == 200

    run(scenario)


def test_a_partition_without_a_leader_waits_for_one() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.elect(0, NO_LEADER)
        leaders.send("a", 0)
        await asyncio.sleep(30)
        assert not leaders.calls and not leaders.ended
        leaders.elect(0, 3)
        await asyncio.sleep(0.01)
        assert leaders.ended == ["a"]

    run(scenario)


def test_a_leader_whose_broker_is_not_registered_is_none() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.publish(UnregisterBrokerRecord(1, 1))
        leaders.send("a", 0)
        await asyncio.sleep(5)
        assert not leaders.calls
        leaders.publish(RegisterBrokerRecord(1, "process-1b", 9, "h", 9_001))
        await asyncio.sleep(0.01)
        assert leaders.ended == ["a"]

    run(scenario)


@pytest.mark.parametrize("when", ["before", "waiting", "resting", "in a call"])
def test_a_partition_of_a_deleted_topic_counts_as_written(when: str) -> None:
    async def scenario(leaders: Leaders) -> None:
        if when == "before":
            leaders.delete()
        leaders.dead = {1} if when == "resting" else set()
        leaders.hanging = {1} if when == "in a call" else set()
        leaders.send("a", 0)
        await asyncio.sleep(0 if when == "waiting" else 1)
        if when != "before":
            leaders.delete()
        await asyncio.sleep(0.01)
        assert leaders.ended == ["a"] and leaders.sender.open_partitions == 0
        await asyncio.sleep(30)
        assert leaders.ended == ["a"]

    run(scenario)


def test_one_that_is_withdrawn_is_asked_for_no_more_and_ends_no_more() -> None:
    async def scenario(leaders: Leaders) -> None:
        leaders.dead = {1}
        resting, calling = leaders.send("resting", 0), leaders.send("calling", 1)
        await asyncio.sleep(0.001)
        leaders.sender.withdraw(resting)
        leaders.sender.withdraw(calling)
        waiting = leaders.send("waiting", 2)
        leaders.sender.withdraw(waiting)
        leaders.sender.withdraw(waiting)
        calls = len(leaders.calls)
        await asyncio.sleep(30)
        assert (len(leaders.calls), leaders.ended, leaders.sender.open_partitions) == (calls, [], 0)

    run(scenario)


def test_an_answer_that_leaves_a_partition_out_is_none() -> None:
    async def scenario(leaders: Leaders) -> None:
        heard: list[TopicPartition] = []

        def say(broker_id: int, partition: TopicPartition) -> ApiError | None:
            heard.append(partition)
            return None

        leaders.say = say
        answer, leaders._answer = (
            leaders._answer,
            lambda broker_id, marker: type(  # type: ignore[method-assign]
                answer(broker_id, marker)
            )(marker.producer_id, ()),
        )
        leaders.send("a", 0)
        await asyncio.sleep(0.5)
        assert not leaders.ended and len(heard) > 2
        leaders._answer = answer  # type: ignore[method-assign]
        await asyncio.sleep(2)
        assert leaders.ended == ["a"]

    run(scenario)
