"""I75 finds a writer of a coordinator's partition that is not its coordinator, or does not know its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker.coordination.shard_ports import ShardState
from tests.simulation.cluster.coordinator_invariants import wrong_append
from tests.simulation.cluster.mutants.groups import CONFIG
from tests.simulation.cluster.plan import GroupPlan, MemberKind, MemberPlan
from tests.simulation.cluster.test_invariants import HEALTHY, Scene, judged

BOOKS = replace(
    HEALTHY,
    config={**HEALTHY.config, **CONFIG},
    groups=(GroupPlan("books", ("topic",), (MemberPlan(MemberKind.BOOKKEEPER, 0.05),)),),
)


def test_a_writer_that_is_not_the_coordinator_of_the_lead_is_found() -> None:
    found: list[str] = []

    def lie(scene: Scene) -> None:
        node, shard = next(
            (life.node, shard)
            for life in scene.lives
            if life.node.broker is not None
            for shard in life.node.broker.coordinators.groups.coordinator.shards
            if shard.log.barrier.end
        )
        assert node.broker is not None
        barrier, shards = shard.log.barrier, node.broker.coordinators.groups.coordinator._shards
        lead, end, number = shard.lead, barrier.end, shard.partition.topic_partition.partition
        lies: tuple[Callable[[], object], ...] = (
            lambda: setattr(barrier, "end", end - 1),
            lambda: setattr(shard, "state", ShardState.LOADING),
            lambda: setattr(shard, "lead", lead._replace(leader_epoch=lead.leader_epoch - 1)),
            lambda: shards.pop(number),
        )
        for judged_now in lies:
            judged_now()
            found.append(wrong_append(node, shard.partition))
            barrier.end, shard.state, shard.lead, shards[number] = end, ShardState.ACTIVE, lead, shard
        assert not wrong_append(node, shard.partition)
        barrier.end -= 1  # the next append finds it

    (failure,) = judged(lie, BOOKS).failures
    assert failure.startswith("I75: ") and "somebody else writes" in failure
    assert [why.rpartition(" ")[2] for why in found] == ["writes", "log", "it", "it"], found
