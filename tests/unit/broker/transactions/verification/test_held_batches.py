"""Promises of batches that wait for their coordinator: each is released once, in order, and there are not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.replication.partition import Partition
from broker.transactions.verification.held_batches import HeldBatches
from broker.transactions.verification.questions import InTransaction
from penstock.errors import ApiError, NotEnoughReplicasError, ResourceExhaustedError, TransactionAbortableError
from penstock.messages.transactions.producers import TransactionPartitions
from penstock.types import TopicPartition
from tests.support.partitions import make_log, state
from tests.support.verification import Coordinators, held_by
from tests.support.virtual_time import run_virtual

FIRST, SECOND = InTransaction("mine", 7, 3), InTransaction("mine", 7, 4)


class Scene:
    def __init__(self, path: Path, **coordinators: Any) -> None:
        self.coordinators = Coordinators(**coordinators)
        self.held: HeldBatches = held_by(self.coordinators)
        self.partition = Partition(1, make_log(path), 0, 1)
        self.partition.become_leader(state(isr=(1,)), 0)
        self.released: list[tuple[str, ApiError | None]] = []

    def hold(
        self,
        name: str,
        transaction: InTransaction = FIRST,
        size_bytes: int = 10,
        wait_ms: int = 60_000,
        party: str = "User:anna",
    ) -> Batch:
        batch = Batch(self, name, transaction, size_bytes, wait_ms)
        batch.party = party
        self.held.hold(self.partition, batch)
        return batch

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.released]


class Batch:
    def __init__(self, scene: Scene, name: str, in_transaction: InTransaction, size_bytes: int, wait_ms: float) -> None:
        self._scene, self._name = scene, name
        self.in_transaction, self.size_bytes, self.wait_ms = in_transaction, size_bytes, wait_ms
        self.party = ""

    def release(self, error: ApiError | None) -> None:
        self._scene.released.append((self._name, error))


def play(path: Path, story: Callable[[Scene], Coroutine[Any, Any, None]], **coordinators: Any) -> None:
    async def main() -> None:
        scene = Scene(path, **coordinators)
        await story(scene)
        await scene.held._verifier.stop()
        assert not scene.held.holds(scene.partition, 7)
        assert not scene.held._counts.used and not scene.held._bytes.used and not len(scene.partition.guards)

    run_virtual(main())


def test_batches_behind_the_first_one_ask_nothing_and_keep_their_order(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for name in "abc":
            scene.hold(name)
        assert scene.held.holds(scene.partition, 7) and not scene.released
        await asyncio.sleep(0.01)
        assert scene.released == [("a", None), ("b", None), ("c", None)]
        assert len(scene.coordinators.asked) == 1

    play(tmp_path, story)


def test_a_refusal_is_that_of_the_whole_transaction(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for name in "ab":
            scene.hold(name)
        await asyncio.sleep(0.01)
        assert scene.names == ["a", "b"]
        assert all(isinstance(error, TransactionAbortableError) for _, error in scene.released)

    play(tmp_path, story, say=lambda transaction, partition: TransactionAbortableError("no"))


def test_the_next_transaction_has_its_own_question(tmp_path: Path) -> None:
    def say(transaction: TransactionPartitions, partition: TopicPartition) -> ApiError | None:
        return TransactionAbortableError("over") if transaction.producer_epoch == 3 else None

    async def story(scene: Scene) -> None:
        for name, transaction in (("a", FIRST), ("b", SECOND), ("c", SECOND), ("d", FIRST)):
            scene.hold(name, transaction)
        await asyncio.sleep(0.1)
        assert scene.names == ["a", "b", "c", "d"]
        assert [error is None for _, error in scene.released] == [False, True, True, False]
        assert len(scene.coordinators.asked) == 3

    play(tmp_path, story, say=say)


def test_a_batch_that_nobody_wants_makes_way_for_the_next_one(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        batches = [scene.hold(name) for name in "abcd"]
        scene.held.discard(scene.partition, batches[2])
        scene.held.discard(scene.partition, batches[0])
        scene.held.discard(scene.partition, batches[0])
        await asyncio.sleep(0.1)
        assert scene.released == [("b", None), ("d", None)]
        alone = scene.hold("e")
        scene.held.discard(scene.partition, alone)
        assert not scene.held.holds(scene.partition, 7)

    play(tmp_path, story)


def test_without_an_answer_those_behind_are_told_with_the_first_one(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.hold("a", wait_ms=1_000)
        scene.hold("b", wait_ms=9_000)
        await asyncio.sleep(1.1)
        assert scene.names == ["a", "b"]
        assert all(isinstance(error, NotEnoughReplicasError) for _, error in scene.released)

    play(tmp_path, story, closed={"mine"})


@pytest.mark.parametrize(("limit", "most"), [("batches", 4), ("size_bytes", 40), ("queue", 2)])
def test_batches_are_bounded_and_a_party_has_a_share(tmp_path: Path, limit: str, most: int) -> None:
    async def story(scene: Scene) -> None:
        scene.held = held_by(scene.coordinators, **{limit: most})
        scene.hold("a")
        scene.hold("b")
        with pytest.raises(ResourceExhaustedError) as refusal:
            scene.hold("c")
        if limit != "queue":
            assert "of User:anna" in str(refusal.value)
            scene.hold("of another", InTransaction("other", 8, 0), party="User:ben")
        assert refusal.value.retriable and refusal.value.nothing_written
        await asyncio.sleep(0.01)
        scene.hold("d")
        await asyncio.sleep(0.01)
        assert [name for name in scene.names if name != "of another"] == ["a", "b", "d"]

    play(tmp_path, story)


def test_one_that_may_not_be_asked_about_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.held._verifier.stop()
        with pytest.raises(NotEnoughReplicasError):
            scene.hold("a")

    play(tmp_path, story)
