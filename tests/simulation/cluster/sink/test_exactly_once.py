"""A group that processes and an application of atomic batches write exactly once though each broker dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.mutants.processing import CONFIG
from tests.simulation.cluster.plan import (
    Fault,
    Kind,
    ProcessingPlan,
    SinkPlan,
    TopicKind,
    TopicPlan,
    WriterPlan,
)
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World


def test_both_write_exactly_once_though_each_node_dies() -> None:
    faults = [Fault(0.8 + 1.0 * node, Kind.KILL, node, 0, 0.3, 0.5) for node in range(3)]
    plan = small_plan(*faults, seconds=4.0)
    made = [TopicPlan(name, 2, 2, {}, TopicKind.TRANSACTED) for name in ("made", "sunk")]
    plan = replace(
        plan,
        topics=(*plan.topics, *made),
        config={**plan.config, **CONFIG},
        processings=(ProcessingPlan("processing", ("topic-0",), "made", 2, 0.1, 20),),
        sinks=(SinkPlan("sink", "sunk", 3, 0.1, 4),),
    )
    world = World(plan)
    assert not world.run().failures
    calls = world.clients.calls
    assert calls["processing transactions committed"] > 3
    assert calls["sink versions committed"] > 3


@pytest.mark.long
def test_a_group_that_is_behind_when_writers_end_is_judged_by_the_ends_of_what_it_made_then() -> None:
    plan = small_plan(seconds=4.0)
    plan = replace(
        plan,
        topics=(*plan.topics, TopicPlan("made", 2, 2, {}, TopicKind.TRANSACTED)),
        config={**plan.config, **CONFIG},
        writers=(WriterPlan("topic-0", 1, 0.1, 20, is_keyed=False),),
        processings=(ProcessingPlan("processing", ("topic-0",), "made", 1, 3.0, 20),),
    )
    world = World(plan)
    assert not world.run().failures
    processed = sum(end for tp, end in (world.clients.ends or {}).items() if tp.topic == "topic-0")
    assert processed > 500


@pytest.mark.long
def test_a_driver_that_begins_while_no_broker_answers_asks_again() -> None:
    plan = small_plan(Fault(0.0, Kind.POWER_ALL, 0, 0, 11.0, 0.5), seconds=12.0)
    plan = replace(
        plan,
        topics=(*plan.topics, TopicPlan("sunk", 2, 2, {}, TopicKind.TRANSACTED)),
        config={**plan.config, **CONFIG},
        sinks=(SinkPlan("sink", "sunk", 3, 0.1, 4),),
    )
    world = World(plan)
    assert not world.run().failures
    assert world.clients.refused["sink BootstrapError"]
    assert world.clients.calls["sink versions committed"]


def test_some_of_the_seeds_have_one_or_the_other() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    assert 4 <= sum(bool(plan.processings) for plan in plans) <= 20
    assert 4 <= sum(bool(plan.sinks) for plan in plans) <= 20
    assert all(plan.has_kafka or not plan.groups for plan in plans)
