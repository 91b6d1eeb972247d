"""Consumers with racks read at followers in whole simulated clusters, also beside faults."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.mutants.racks import CALM, CUT, HANGS, LATE, SLOW, TRANSACTIONS
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.world import World
from tests.support.amount import at_night

STORIES = {"calm": CALM, "slow": SLOW, "cut": CUT, "hangs": HANGS, "late": LATE, "transactions": TRANSACTIONS}


@pytest.mark.parametrize("name", at_night(STORIES, ["calm", "slow", "hangs", "transactions"]))
def test_readers_are_served_by_followers_and_nothing_is_lost(name: str) -> None:
    plan: Plan = STORIES[name][0]
    world = World(plan)
    outcome = world.run()
    assert not outcome.failures
    readers = world.invariants.clients.readers
    assert readers.named and readers.served, "this story is about readers at followers"


def test_plans_have_racks_in_nodes_and_consumers_and_some_nodes_that_do_not_select() -> None:
    racks = [plan.racks for plan in map(draw_plan, range(150)) if plan.racks is not None]
    assert 20 <= len(racks) <= 70
    assert any(not all(one.selects) for one in racks)
    assert any(len(set(one.nodes)) < len(one.nodes) for one in racks)
    assert any("" in one.consumers for one in racks)
