"""A secured cluster in a small story: everything that can be tried is tried, and judged right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.drawn_security import with_security
from tests.simulation.cluster.mutants.hunt import hunt, named
from tests.simulation.cluster.plan import Aim, Fault, Kind, SecurityPlan
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World
from tests.support.amount import at_night

MUTANTS = ("a session counts at every connection", "a node speaks in the name of every other one")
TRIED = {
    "allowed",
    "refused",
    "let in",
    "kept out",
    "nobody refused",
    "stolen tokens refused",
    "forgeries refused",
}


def test_rights_log_ins_and_senders_hold_while_the_controller_changes() -> None:
    kill = Fault(2.0, Kind.KILL, 0, 1, 0.5, 0.5, Aim.CONTROLLER)
    outcome = World(replace(small_plan(kill), security=SecurityPlan(2, 0.1, session_ms=1_500))).run()
    assert outcome.failures == []
    assert outcome.security.keys() >= TRIED
    assert outcome.acked > 0


def test_some_plans_are_secured_and_every_plan_can_be() -> None:
    secured = sum(draw_plan(seed).security is not None for seed in range(100))
    assert 2 < secured < 25
    assert with_security(draw_plan(1), share=1.0).security is not None


@pytest.mark.parametrize("name", at_night(MUTANTS, long=MUTANTS[:1]))
def test_a_mutant_of_security_dies(name: str) -> None:
    assert hunt(0, named(name)).killer is not None
