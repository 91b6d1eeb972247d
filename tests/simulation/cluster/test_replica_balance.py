"""Replicas go to the brokers with fewer, by schedule and under load: no record is lost, and clients notice nothing."""

from __future__ import annotations

from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import TopicPlan
from tests.simulation.cluster.replicas import apart
from tests.simulation.cluster.world import World

ROLES = ((False, True), *((True, False),) * 4)


def test_brokers_with_two_replicas_and_none_have_one_each_in_the_end() -> None:
    (plan,) = directed(
        tellings=1,
        roles=ROLES,
        copies=2,
        seconds=2.0,
        topics=(TopicPlan("topic-0", 2, 2, {}),),
        auto_replica_balance_enable=True,
        auto_replica_balance_check_interval_seconds=1,
    )
    world = World(plan)
    outcome = world.run()
    assert not outcome.failures and outcome.acked > 30 and outcome.failed_records == 0
    image = world.invariants.metadata.newest
    assert apart(image) == 0, "two partitions of two replicas on neighbours: 1, 2, 1 and none, before"
    (topic,) = image.topics_by_id.values()
    assert sum(partition.partition_epoch for partition in topic.partitions.values()) > 0
