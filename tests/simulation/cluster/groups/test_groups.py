"""Groups of each kind live through the death of a node, and do their work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.mutants.groups import CONFIG
from tests.simulation.cluster.plan import Fault, GroupPlan, Kind, MemberKind, MemberPlan, TopicPlan
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World


@pytest.mark.parametrize(
    ("kinds", "strategy"),
    [
        ((MemberKind.CONSUMER, MemberKind.OURS), "range"),
        pytest.param((MemberKind.CLASSIC, MemberKind.OURS), "range", marks=pytest.mark.long),
        ((MemberKind.CLASSIC,), "cooperative-sticky"),
    ],
)
def test_a_group_does_its_work_though_each_node_dies(kinds: tuple[MemberKind, ...], strategy: str) -> None:
    faults = [Fault(1.5 + 1.5 * node, Kind.KILL, node, 0, 0.3, 0.5) for node in range(3)]
    members = tuple(MemberPlan(kinds[n % len(kinds)], 0.1, n == 0) for n in range(3))
    books = GroupPlan("books", ("topic-0",), (MemberPlan(MemberKind.BOOKKEEPER, 0.2),))
    plan = small_plan(*faults, seconds=6.0)
    plan = replace(
        plan,
        topics=(TopicPlan("topic-0", 4, 2, {}),),
        config={**plan.config, **CONFIG},
        groups=(GroupPlan("group-0", ("topic-0",), members, strategy), books),
    )
    world = World(plan)
    assert not world.run().failures
    calls = world.clients.calls
    assert calls["group offsets committed"] > 5 and calls["group offsets booked"] > 5


def test_the_groups_of_a_seed_leave_the_rest_of_its_plan_as_it_is() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    grouped = [plan for plan in plans if plan.groups]
    assert 20 <= len(grouped) <= 40 and {len(group.members) for plan in grouped for group in plan.groups} >= set(
        range(1, 7)
    )
    others = [plan for plan in plans if not (plan.groups or plan.processings or plan.sinks or plan.calendars)]
    assert others and not {key for plan in others for key in plan.config} & set(CONFIG)
