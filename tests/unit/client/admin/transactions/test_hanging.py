"""Which transactions hang: those that a partition has open, and that no coordinator will end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.client.admin.transactions import hanging
from penstock.client.admin.transactions.transaction_types import TransactionDetails, TransactionOverview
from penstock.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    InvalidTxnStateError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.messages.produce import ProducerState
from penstock.messages.transactions.listing import ListTransactionsRequest
from penstock.types import NO_LEADER, TopicPartition

PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW_MS, OLD_MS = 1_000_000, 10_000


class Clock:
    def now_ms(self) -> int:
        return 0


class Cluster:
    clock = Clock()

    def __init__(self, leaders: tuple[int, ...] = ()) -> None:
        self._leaders = leaders

    async def list_topics(self, deadline_ms: int, names: tuple[str, ...]) -> tuple[TopicInfo, ...]:
        """The transactions' topic with these leaders; without any, the answer for a topic that there is not."""
        assert names == ("__transaction_state",)
        error = None if self._leaders else UnknownTopicOrPartitionError("no such topic")
        partitions = tuple(
            PartitionInfo(number, leader_id, 0, 0, (1, 2), (1,)) for number, leader_id in enumerate(self._leaders)
        )
        return (TopicInfo(names[0], partitions=partitions, error=error),)


def producer(producer_id: int, start: int | None, *, epoch: int = 3, at_ms: int = OLD_MS) -> ProducerState:
    return ProducerState(producer_id, epoch, 5, at_ms, 7, start)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`known` are the producers of partitions, `ids` the transactional ids of coordinators."""
    found: dict[str, Any] = {"known": {}, "ids": {}, "asked": []}

    async def ask_known(cluster: object, partitions: Iterable[TopicPartition], left_ms: int) -> Any:
        return {tp: found["known"].get(tp, ()) for tp in partitions}

    async def listed(cluster: object, request: ListTransactionsRequest, deadline_ms: int) -> Any:
        found["asked"].append(request.producer_ids)
        return [
            TransactionOverview(one.transactional_id, one.producer_id, one.state, 1)
            for one in found["ids"].values()
            if one.producer_id in request.producer_ids
        ]

    async def described(coordinators: object, ids: Iterable[str], deadline_ms: int) -> Any:
        return {name: found["ids"][name] for name in ids}

    monkeypatch.setattr(hanging, "ask_known_producers", ask_known)
    monkeypatch.setattr(hanging, "list_transactions", listed)
    monkeypatch.setattr(hanging, "describe_transactions", described)
    return found


def find(*partitions: TopicPartition) -> list[tuple[TopicPartition, int, str | None]]:
    coordinators: Any = None
    cluster: Any = Cluster()
    found = asyncio.run(hanging.find_hanging(cluster, coordinators, partitions, NOW_MS, 1_000))
    return [(one.partition, one.producer_id, one.transactional_id) for one in found]


def details(name: str, producer_id: int, *partitions: TopicPartition, epoch: int = 3) -> TransactionDetails:
    return TransactionDetails(name, None, "Ongoing", producer_id, epoch, 60_000, OLD_MS, partitions, 1)


def test_what_no_coordinator_knows_hangs(world: dict[str, Any]) -> None:
    world["known"] = {PLACE: (producer(1, 40), producer(2, None))}
    assert find(PLACE, OTHER) == [(PLACE, 1, None)]
    assert world["asked"] == [(1,)]  # the producer without an open transaction is nobody's question


def test_what_its_coordinator_has_open_with_the_partition_does_not_hang(world: dict[str, Any]) -> None:
    world["known"] = {PLACE: (producer(1, 40),), OTHER: (producer(1, 50),)}
    world["ids"] = {"billing": details("billing", 1, PLACE)}
    assert find(PLACE, OTHER) == [(OTHER, 1, "billing")]


def test_a_coordinator_that_is_an_epoch_further_with_the_partition_ends_the_older_one_too(
    world: dict[str, Any],
) -> None:
    world["known"] = {PLACE: (producer(1, 40),)}
    world["ids"] = {"billing": details("billing", 1, PLACE, epoch=4)}
    assert find(PLACE) == []


def test_what_is_new_does_not_hang_yet(world: dict[str, Any]) -> None:
    world["known"] = {PLACE: (producer(1, 40, at_ms=NOW_MS),)}
    assert find(PLACE) == [] and world["asked"] == []


@pytest.mark.parametrize("ids", [{"billing": details("billing", 1, PLACE)}, {}])
def test_a_transaction_that_a_coordinator_will_end_and_one_that_is_not_there_are_not_aborted_by_hand(
    world: dict[str, Any], ids: dict[str, TransactionDetails]
) -> None:
    world["known"], world["ids"] = {PLACE: (producer(1, 40),)}, ids
    start = 40 if ids else 41
    coordinators: Any = None
    cluster: Any = Cluster()
    with pytest.raises(InvalidTxnStateError, match="by its id instead" if ids else "no open transaction"):
        asyncio.run(hanging.end_hanging(cluster, coordinators, PLACE, start, 1_000))


@pytest.mark.parametrize("call", ["find", "end"])
def test_nothing_hangs_while_a_partition_of_the_transactions_topic_has_no_leader(
    world: dict[str, Any], call: str
) -> None:
    world["known"] = {PLACE: (producer(1, 40),)}
    coordinators: Any = None
    cluster: Any = Cluster((1, NO_LEADER, 2))
    asked = (
        hanging.find_hanging(cluster, coordinators, [PLACE], NOW_MS, 1_000)
        if call == "find"
        else hanging.end_hanging(cluster, coordinators, PLACE, 40, 1_000)
    )
    with pytest.raises(CoordinatorNotAvailableError, match="__transaction_state-1 has no leader"):
        asyncio.run(asked)  # type: ignore[arg-type]
    assert world["asked"] == []


def test_nothing_hangs_that_its_coordinator_does_not_describe_now_and_an_id_that_is_gone_has_none(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world["known"], world["ids"] = {PLACE: (producer(1, 40),)}, {"billing": details("billing", 1, PLACE)}
    error: ApiError = CoordinatorNotAvailableError("it moves")

    async def described(coordinators: object, ids: Iterable[str], deadline_ms: int) -> Any:
        return {name: TransactionDetails(name, error) for name in ids}

    monkeypatch.setattr(hanging, "describe_transactions", described)
    with pytest.raises(CoordinatorNotAvailableError, match="it moves"):
        find(PLACE)
    error = TransactionalIdNotFoundError("expired")
    assert find(PLACE) == [(PLACE, 1, None)]
