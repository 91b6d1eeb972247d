"""Promises of the verifier: each question has one answer in time, and no answer counts that a marker has overtaken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.replication.partition import Partition
from broker.transactions.verification import verifier as verifying
from broker.transactions.verification.coordinator_calls import CALL_MS, PATIENCE_MS, WAITING_MAX
from broker.transactions.verification.questions import InTransaction
from broker.transactions.verification.verifier import Verifier
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NetworkError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OperationNotAttemptedError,
    ProducerFencedError,
    ResourceExhaustedError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from penstock.messages.transactions.producers import TransactionPartitions
from penstock.types import TopicPartition
from tests.support.partitions import NOBODY, make_log, state
from tests.support.verification import Coordinators, verifier_of
from tests.support.virtual_time import run_virtual

OURS = InTransaction("mine", 7, 3)
OLD = InTransaction("mine", 7, 3, verify_only=True)
LONG_MS = 60_000


class Scene:
    """Two led partitions, a verifier and its coordinators."""

    def __init__(self, path: Path, **coordinators: Any) -> None:
        self.coordinators = Coordinators(**coordinators)
        self.verifier: Verifier = verifier_of(self.coordinators)
        self.partitions = [self._led(path, TopicPartition("t", n)) for n in range(2)]
        self.outcomes: list[tuple[int, ApiError | None]] = []

    @staticmethod
    def _led(path: Path, key: TopicPartition) -> Partition:
        partition = Partition(1, make_log(path, partition=key), 0, 1)
        partition.become_leader(state(isr=(1,)), 0)
        return partition

    def ask(self, transaction: InTransaction = OURS, number: int = 0, wait_ms: int = LONG_MS, name: int = 0) -> Any:
        return self.verifier.ask(
            self.partitions[number], transaction, wait_ms, lambda error: self.outcomes.append((name, error))
        )

    @property
    def error(self) -> ApiError | None:
        (outcome,) = self.outcomes
        return outcome[1]


Story = Callable[[Scene], Coroutine[Any, Any, None]]


def play(path: Path, story: Story, **coordinators: Any) -> None:
    async def main() -> None:
        scene = Scene(path, **coordinators)
        await story(scene)
        await scene.verifier.stop()
        assert not any(len(partition.guards) for partition in scene.partitions), "no guard is left behind"

    run_virtual(main())


def test_questions_of_one_tick_are_one_call_of_a_broker(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.ask(OURS, 0, name=0)
        scene.ask(OURS, 1, name=1)
        scene.ask(InTransaction("other", 8, 0), 0, name=2)
        scene.ask(InTransaction("far", 9, 0), 0, name=3)
        assert not scene.outcomes, "never before `ask` returns"
        await asyncio.sleep(0.01)
        assert sorted(scene.outcomes, key=lambda one: one[0]) == [(n, None) for n in range(4)]
        both = tuple(partition.topic_partition for partition in scene.partitions)
        (near,) = [request for broker_id, request in scene.coordinators.calls if broker_id == 9]
        assert near.transactions == (
            TransactionPartitions("mine", 7, 3, both, bumps_epoch=True),
            TransactionPartitions("other", 8, 0, both[:1], bumps_epoch=True),
        )
        assert [broker_id for broker_id, _ in scene.coordinators.calls] == [9, 5]
        assert scene.verifier.statistics().confirmed == 4

    play(tmp_path, story, where={"far": (3, 5)})


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (InvalidTxnStateError("x"), TransactionAbortableError),
        (TransactionAbortableError("x"), TransactionAbortableError),
        (ProducerFencedError("x"), InvalidProducerEpochError),
        (InvalidProducerEpochError("x"), InvalidProducerEpochError),
        (InvalidProducerIdMappingError("x"), InvalidProducerIdMappingError),
    ],
)
def test_a_refusal_is_told_at_once_and_says_that_nothing_was_written(
    tmp_path: Path, said: ApiError, error: type[ApiError]
) -> None:
    async def story(scene: Scene) -> None:
        scene.ask()
        await asyncio.sleep(0.01)
        assert isinstance(scene.error, error) and scene.error.nothing_written
        assert len(scene.coordinators.calls) == 1
        assert scene.verifier.statistics().failed == 1

    play(tmp_path, story, say=lambda transaction, partition: said)


def test_a_coordinator_of_a_release_without_transactions_is_not_asked_for_ever(tmp_path: Path) -> None:
    """A cluster that is being upgraded: the producer hears why, and at once."""

    async def story(scene: Scene) -> None:
        scene.ask()
        await asyncio.sleep(0.01)
        assert isinstance(scene.error, UnsupportedVersionError) and not scene.error.retriable
        assert "release without transactions" in str(scene.error) and "upgrade all brokers" in str(scene.error)
        assert len(scene.coordinators.calls) == 1

    play(tmp_path, story, failure=UnsupportedVersionError("broker 2 does not know this call"))


def concurrent_until(scene: Scene, ended: list[bool]) -> None:
    scene.coordinators.say = lambda transaction, partition: None if ended else ConcurrentTransactionsError("later")
    scene.coordinators.ended.clear()


def test_a_transaction_that_is_being_ended_is_waited_for_in_a_call_of_its_own(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        ended: list[bool] = []
        concurrent_until(scene, ended)
        scene.ask(OURS, 0, name=0)
        scene.ask(OURS, 1, name=1)
        scene.ask(InTransaction("other", 8, 0), 0, name=2)
        await asyncio.sleep(0.05)
        assert [(len(request.transactions), request.waits) for _, request in scene.coordinators.calls] == [
            (2, False),
            (1, True),
            (1, True),
        ]
        scene.partitions[0].guards._marked_by(7, 3)  # the end of the last one, whose marker has this one's epoch
        ended.append(True)
        scene.coordinators.ended.set()
        await asyncio.sleep(0.005)
        assert sorted(scene.outcomes) == [(0, None), (1, None), (2, None)] and len(scene.coordinators.calls) == 3

    play(tmp_path, story)


def test_questions_of_others_do_not_wait_for_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        ended: list[bool] = []
        concurrent_until(scene, ended)
        scene.ask(OURS, 0, name=0)
        await asyncio.sleep(0.01)
        ended.append(True)
        for name in range(1, 4):
            scene.ask(InTransaction(f"other-{name}", 7 + name, 0), 0, name=name)
            await asyncio.sleep(0.002)
        assert scene.outcomes == [(1, None), (2, None), (3, None)]

    play(tmp_path, story)


def test_its_own_marker_ends_the_guard_of_a_question_that_waits(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        ended: list[bool] = []
        concurrent_until(scene, ended)
        scene.ask(OURS, 0, name=0)
        await asyncio.sleep(0.01)
        ended.append(True)
        scene.partitions[0].guards._marked_by(7, 4)  # it timed out
        scene.coordinators.ended.set()
        await asyncio.sleep(0.1)
        assert scene.outcomes == [(0, None)] and len(scene.coordinators.calls) == 3, "it is asked about once more"

    play(tmp_path, story)


def test_only_so_many_calls_wait_and_the_others_ask_again(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        ended: list[bool] = []
        concurrent_until(scene, ended)
        for name in range(WAITING_MAX + 1):
            scene.ask(InTransaction(f"{name}", name, 0), 0, name=name)
        await asyncio.sleep(0.5)
        calls = [request for _, request in scene.coordinators.calls]
        assert sum(request.waits for request in calls) == WAITING_MAX
        assert sum(not request.waits for request in calls) > 3, "one asks again and again"
        ended.append(True)
        scene.coordinators.ended.set()
        await asyncio.sleep(0.5)
        assert len(scene.outcomes) == WAITING_MAX + 1

    play(tmp_path, story)


@pytest.mark.parametrize(
    "said",
    [
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        NotCoordinatorError,
        ConcurrentTransactionsError,
        UnknownTopicOrPartitionError,
        OperationNotAttemptedError,
    ],
)
def test_a_coordinator_that_cannot_say_now_is_asked_again(tmp_path: Path, said: type[ApiError]) -> None:
    async def story(scene: Scene) -> None:
        errors: list[ApiError | None] = [said("later"), said("later")]
        scene.coordinators.say = lambda transaction, partition: errors.pop() if errors else None
        scene.ask()
        await asyncio.sleep(1)
        assert scene.error is None and len(scene.coordinators.calls) == 3

    play(tmp_path, story)


def test_a_coordinator_that_has_moved_is_asked_at_its_new_place(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        def moved(transaction: TransactionPartitions, partition: TopicPartition) -> ApiError | None:
            if scene.coordinators.where:
                return None
            scene.coordinators.where["mine"] = (0, 4)
            return NotCoordinatorError("elsewhere")

        scene.coordinators.say = moved
        scene.ask()
        await asyncio.sleep(1)
        assert scene.error is None
        assert [broker_id for broker_id, _ in scene.coordinators.calls] == [9, 4]

    play(tmp_path, story)


def test_questions_behind_a_call_without_an_answer_go_to_the_new_place_with_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async def gone(broker_id: int, request: Any, timeout_ms: int) -> Any:
            if broker_id == 9:
                await asyncio.sleep(0.05)
                scene.coordinators.where["mine"] = (0, 4)
                raise NetworkError("gone")
            return await scene.coordinators.ask(broker_id, request, timeout_ms)

        scene.verifier = Verifier(scene.coordinators, gone, scene.verifier._backoff, pytest.fail)
        scene.ask(name=0)
        await asyncio.sleep(0.01)
        scene.ask(number=1, name=1)
        await asyncio.sleep(0.09)
        assert sorted(name for name, _ in scene.outcomes) == [0, 1]
        assert {error for _, error in scene.outcomes} == {None}

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        ({"failure": NetworkError("gone")}, NotEnoughReplicasError),
        ({"missing": True}, NotEnoughReplicasError),
        ({"closed": {"mine"}}, NotEnoughReplicasError),
        ({"say": lambda transaction, partition: ConcurrentTransactionsError("later")}, ConcurrentTransactionsError),
    ],
)
def test_without_an_answer_in_time_the_error_is_retriable(
    tmp_path: Path, trouble: dict[str, Any], error: type[ApiError]
) -> None:
    async def story(scene: Scene) -> None:
        scene.ask(wait_ms=20_000)
        await asyncio.sleep(19.9)
        assert not scene.outcomes
        await asyncio.sleep(0.2)
        assert isinstance(scene.error, error) and scene.error.retriable and scene.error.nothing_written
        scene.coordinators.opened.set()
        await asyncio.sleep(CALL_MS / 1000)
        assert len(scene.outcomes) == 1, "what comes late is told nobody"

    play(tmp_path, story, **trouble)


def test_a_coordinator_that_hangs_holds_up_others_in_no_more_than_one_call(tmp_path: Path) -> None:
    """Their questions were in one call; when that is given up, each coordinator has its own."""

    async def story(scene: Scene) -> None:
        async def ask(broker_id: int, request: Any, timeout_ms: int) -> Any:
            try:
                return await asyncio.wait_for(scene.coordinators.ask(broker_id, request, timeout_ms), timeout_ms / 1000)
            except TimeoutError:
                raise NetworkError("no answer") from None

        scene.verifier = Verifier(scene.coordinators, ask, scene.verifier._backoff, pytest.fail)
        scene.ask(OURS, name=0)
        scene.ask(InTransaction("near", 8, 0), name=1)
        await asyncio.sleep((CALL_MS - 100) / 1000)
        assert not scene.outcomes and len(scene.coordinators.calls) == 1
        await asyncio.sleep(0.4)
        assert scene.outcomes == [(1, None)]
        scene.ask(InTransaction("near", 9, 0), name=2)
        await asyncio.sleep(0.01)
        assert scene.outcomes == [(1, None), (2, None)]
        scene.coordinators.closed.clear()
        scene.coordinators.opened.set()
        await asyncio.sleep(CALL_MS / 1000)
        assert scene.outcomes == [(1, None), (2, None), (0, None)]

    play(tmp_path, story, closed={"mine"}, where={"near": (1, 9)})


def test_other_coordinators_of_the_same_broker_are_asked_beside_a_call_that_takes_long(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.ask(OURS, name=0)
        await asyncio.sleep((PATIENCE_MS + 10) / 1000)
        scene.ask(InTransaction("near", 8, 0), name=1)
        scene.ask(InTransaction("mine", 8, 0), name=2)
        await asyncio.sleep(0.01)
        assert scene.outcomes == [(1, None)]
        assert [name for name, _ in scene.coordinators.asked] == ["mine", "near"], "not the one that hangs, again"

    play(tmp_path, story, closed={"mine"}, where={"near": (1, 9)})


def test_a_marker_ends_the_question_of_an_old_producer(tmp_path: Path) -> None:
    """Version 1: the transaction after the marker has the same epoch, and the batch is from before it."""

    async def story(scene: Scene) -> None:
        scene.ask(OLD)
        scene.partitions[0].guards.marked(7)
        await asyncio.sleep(0.01)
        assert isinstance(scene.error, TransactionAbortableError)
        (asked,) = scene.coordinators.calls[0][1].transactions
        assert asked.verify_only and not asked.bumps_epoch

    play(tmp_path, story)


def test_a_marker_in_a_pause_ends_the_question_of_an_old_producer(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        errors = [CoordinatorLoadInProgressError("later")]
        scene.coordinators.say = lambda transaction, partition: errors.pop() if errors else None
        scene.ask(OLD)
        await asyncio.sleep(0.0015)
        assert len(scene.coordinators.calls) == 1 and not scene.outcomes
        scene.partitions[0].guards.marked(7)
        await asyncio.sleep(1)
        assert isinstance(scene.error, TransactionAbortableError) and len(scene.coordinators.calls) == 1

    play(tmp_path, story)


def test_a_marker_of_the_last_transaction_has_the_coordinator_asked_again(tmp_path: Path) -> None:
    """Version 2: the epoch tells the transactions apart, and the coordinator knows the one that is open."""

    async def story(scene: Scene) -> None:
        scene.ask()
        scene.partitions[0].guards.marked(7)
        await asyncio.sleep(0.01)
        assert scene.error is None and len(scene.coordinators.calls) == 2

    play(tmp_path, story)


def test_a_marker_of_another_producer_changes_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.ask(OLD)
        scene.partitions[0].guards.marked(8)
        scene.partitions[1].guards.marked(7)
        await asyncio.sleep(0.01)
        assert scene.error is None and len(scene.coordinators.calls) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("transaction", [OURS, OLD])
@pytest.mark.parametrize("comes_back", [False, True])
def test_an_answer_from_before_the_lead_was_lost_does_not_count(
    tmp_path: Path, transaction: InTransaction, comes_back: bool
) -> None:
    async def story(scene: Scene) -> None:
        scene.ask(transaction)
        scene.partitions[0].become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        if comes_back:
            scene.partitions[0].become_leader(state(leader_epoch=7, isr=(1,)), 0)
        await asyncio.sleep(0.01)
        assert isinstance(scene.error, NotLeaderOrFollowerError) and scene.error.nothing_written

    play(tmp_path, story)


def test_a_question_that_was_withdrawn_is_not_told(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        before_its_call = scene.ask(name=0)
        scene.verifier.withdraw(before_its_call)
        assert not len(scene.partitions[0].guards)
        during_it = scene.ask(name=1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        scene.verifier.withdraw(during_it)
        await asyncio.sleep(0.1)
        assert not scene.outcomes and scene.verifier.statistics().waiting == 0

    play(tmp_path, story)


def test_questions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "OPEN_MAX", 2)

    async def story(scene: Scene) -> None:
        scene.ask(name=0)
        scene.ask(name=1)
        with pytest.raises(ResourceExhaustedError):
            scene.ask(name=2)
        await asyncio.sleep(0.01)
        scene.ask(name=3)
        await asyncio.sleep(0.01)
        assert [name for name, _ in scene.outcomes] == [0, 1, 3]

    play(tmp_path, story)


def test_at_the_end_whoever_waits_is_told(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.ask()
        await scene.verifier.stop()
        assert isinstance(scene.error, NotEnoughReplicasError)
        with pytest.raises(NotEnoughReplicasError):
            scene.ask()

    play(tmp_path, story, closed={"mine"})


def test_an_answer_to_another_request_is_none(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        ask, times = scene.coordinators.ask, [0]

        async def wrong_once(broker_id: int, request: Any, timeout_ms: int) -> Any:
            answer = await ask(broker_id, request, timeout_ms)
            times[0] += 1
            return type(answer)(()) if times[0] == 1 else answer

        scene.verifier = Verifier(scene.coordinators, wrong_once, scene.verifier._backoff, pytest.fail)
        scene.ask()
        await asyncio.sleep(1)
        assert scene.error is None and times == [2]

    play(tmp_path, story)
