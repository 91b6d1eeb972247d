"""Promises of AlterPartition's sender: every proposal gets its answer, however many there are and whoever refuses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.replication.leader import alter_partition
from broker.replication.leader.alter_partition import PARTITIONS_MAX, AlterPartitionManager
from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.partition import Partition
from metadata.requests import AlterPartitionRequest, AlterPartitionResponse, AlterPartitionResult, IsrMember
from penstock.errors import ApiError, NotControllerError
from penstock.types import TopicPartition

PROPOSED = ProposedIsr((IsrMember(1, 101),), 3)


class Led:
    """As much of a partition as a proposal needs."""

    def __init__(self, number: int) -> None:
        self.done = asyncio.Event()
        self.topic_partition = TopicPartition("t", number)
        self.log = SimpleNamespace(topic_id="id")
        self.state = SimpleNamespace(leader_epoch=5)
        self.leading = SimpleNamespace(proposed=PROPOSED)

    def isr_committed(self, *_args: Any) -> None:
        self.done.set()


def sent(partitions: list[Led], errors: list[ApiError | None]) -> list[int]:
    """How many partitions each request named; the n-th request is answered with the n-th error, then with none."""
    sizes: list[int] = []

    async def controller(request: AlterPartitionRequest) -> AlterPartitionResponse:
        error = errors[len(sizes)] if len(sizes) < len(errors) else None
        sizes.append(len(request.partitions))
        answers = (AlterPartitionResult(data.topic_id, data.partition, error) for data in request.partitions)
        return AlterPartitionResponse(tuple(answers))

    async def scenario() -> None:
        manager = AlterPartitionManager(1, lambda: 101, controller, lambda error: None)
        manager.start()
        for partition in partitions:
            manager.propose(cast(Partition, partition), PROPOSED)
        for partition in partitions:
            await partition.done.wait()
        await manager.stop()

    asyncio.run(asyncio.wait_for(scenario(), 10))
    return sizes


def test_more_proposals_than_one_request_may_carry_go_in_several() -> None:
    partitions = [Led(number) for number in range(2 * PARTITIONS_MAX + 1)]
    assert sent(partitions, []) == [PARTITIONS_MAX, PARTITIONS_MAX, 1]


def test_a_partition_that_another_controller_knows_better_is_proposed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_partition, "RETRY_MS", 1)
    assert sent([Led(0)], [NotControllerError("I am behind")]) == [1, 1]
