"""Promises of AlterPartition's sender: every proposal gets its answer, however many there are and whoever refuses."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.replication.leader.alter_partition import PARTITIONS_MAX, AlterPartitionManager
from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.partition import Partition
from penstock.errors import ApiError, IneligibleReplicaError, NotControllerError, RequestTimedOutError
from penstock.messages.nodes.partitions import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from penstock.types import TopicPartition
from tests.support.virtual_time import run_virtual, virtual_clock

PROPOSED = ProposedIsr((IsrMember(1, 101),), 3)


class Led:
    """The part of a partition that a proposal needs."""

    def __init__(self, number: int) -> None:
        self.done = asyncio.Event()
        self.topic_partition = TopicPartition("t", number)
        self.log = SimpleNamespace(topic_id="id")
        self.state = SimpleNamespace(leader_epoch=5)
        self.leading = SimpleNamespace(proposed=PROPOSED)

    def isr_committed(self, *_args: Any) -> None:
        self.done.set()


class Stubborn(Led):
    """Proposes what was refused, again and again."""

    def __init__(self, number: int, manager: AlterPartitionManager) -> None:
        super().__init__(number)
        self.manager = manager

    def isr_rejected(self, proposed: ProposedIsr) -> None:
        self.manager.propose(cast(Partition, self), proposed)


def sent(partitions: list[Led], errors: list[ApiError | None]) -> list[int]:
    """How many partitions each request named; the n-th request is answered with the n-th error, then with none."""
    sizes: list[int] = []

    async def controller(request: AlterPartitionRequest) -> AlterPartitionResponse:
        error = errors[len(sizes)] if len(sizes) < len(errors) else None
        sizes.append(len(request.partitions))
        answers = (AlterPartitionResult(data.topic_id, data.partition, error) for data in request.partitions)
        return AlterPartitionResponse(tuple(answers))

    async def scenario() -> None:
        manager = AlterPartitionManager(1, lambda: 101, controller, pytest.fail, Random(0))
        manager.calls.start()
        for partition in partitions:
            manager.propose(cast(Partition, partition), PROPOSED)
        for partition in partitions:
            await partition.done.wait()
        await manager.calls.stop()

    run_virtual(asyncio.wait_for(scenario(), 10))
    return sizes


def test_more_proposals_than_one_request_may_carry_go_in_several() -> None:
    partitions = [Led(number) for number in range(2 * PARTITIONS_MAX + 1)]
    assert sent(partitions, []) == [PARTITIONS_MAX, PARTITIONS_MAX, 1]


def test_a_partition_that_another_controller_knows_better_is_proposed_again() -> None:
    assert sent([Led(0)], [NotControllerError("I am behind")]) == [1, 1]


@pytest.mark.parametrize("is_final", [False, True])
def test_what_is_refused_is_proposed_again_soon_at_first_then_less_often(is_final: bool) -> None:
    """Each final refusal is a record of metadata. Here the leader wants the same ISR again at once."""

    async def scenario() -> list[int]:
        clock, asked_ms = virtual_clock(), list[int]()

        async def controller(request: AlterPartitionRequest) -> AlterPartitionResponse:
            asked_ms.append(clock.now_ms())
            if not is_final:
                raise RequestTimedOutError("no answer")
            data, refusal = request.partitions[0], IneligibleReplicaError("fenced")
            return AlterPartitionResponse((AlterPartitionResult(data.topic_id, data.partition, refusal),))

        manager = AlterPartitionManager(1, lambda: 101, controller, pytest.fail, Random(0))
        manager.calls.start()
        partition = cast(Partition, Stubborn(0, manager))
        manager.propose(partition, PROPOSED)
        await asyncio.sleep(1)
        await manager.calls.stop()
        return asked_ms

    waits = [later - earlier for earlier, later in pairwise(run_virtual(scenario()))]
    assert len(waits) >= 5
    assert all(40 <= wait <= 51 for wait in waits[:1]) and all(80 <= wait <= 101 for wait in waits[1:2])
    assert all(160 <= wait <= 201 for wait in waits[2:]) and len(set(waits[2:])) > 1, "a random part is left out"
