"""A plan that fails is cut down to what its failure needs, and printed as Python that fails in the same way."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import pytest

from broker.quorum.metadata_log import QuorumStateFile
from tests.simulation.cluster import world
from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.plan import Fault, Kind, Plan
from tests.simulation.cluster.plan_text import program_of, python_of
from tests.simulation.cluster.shrink import first_failure, is_possible, kind_of, shrink
from tests.simulation.cluster.small_plan import small_plan


def plan_of(text: str) -> Plan:
    """The plan that the printed program runs."""
    names: dict[str, Any] = {}
    exec(text.partition("outcome = ")[0], names)
    found: Plan = names["plan"]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_printed_plan_is_the_plan(seed: int) -> None:
    plan = draw_plan(seed)
    assert plan_of(program_of(plan)) == plan


def test_everything_goes_that_the_failure_does_not_need() -> None:
    """It needs a kill of node 1 before a power cut, a writer of topic-0, and two brokers."""
    drawn = draw_plan(7)
    noise = [Fault(1.0 + n, list(Kind)[n % len(Kind)], n % 3, (n + 1) % 3, 2.0, 0.123456) for n in range(24)]
    noise[9], noise[17] = replace(noise[9], kind=Kind.KILL, target=1), replace(noise[17], kind=Kind.POWER_ALL, target=1)
    plan = replace(small_plan(*noise, seconds=30.0), weather=drawn.weather, readers=small_plan().readers * 3)
    ran: list[Plan] = []

    def run(plan: Plan) -> Sequence[str]:
        ran.append(plan)
        assert is_possible(plan)
        kills = [fault.at_s for fault in plan.faults if fault.kind is Kind.KILL and fault.target == 1]
        cuts = [fault.at_s for fault in plan.faults if fault.kind is Kind.POWER_ALL]
        fails = kills and cuts and kills[0] < cuts[-1] and plan.writers and len(plan.brokers) > 1
        return [f"lost-write: {len(plan.faults)}"] if fails else ["unseen: 1"] if len(plan.faults) == 1 else []

    found = shrink(plan, run)
    assert found is not None and found.kind == "lost-write" and found.runs == len(ran) <= 200
    left = found.plan
    assert [fault.kind for fault in left.faults] == [Kind.KILL, Kind.POWER_ALL]
    assert (len(left.nodes), len(left.topics), len(left.writers), len(left.readers)) == (2, 1, 1, 0)
    assert left.seconds < 12 and left.topics[0].partitions == 1 and left.faults[0].amount == 0.12


def test_a_plan_that_does_not_fail_is_not_shrunk_and_the_runs_have_a_limit() -> None:
    plan = small_plan(*(Fault(1.0 + n, Kind.COLD, 0, 1, 2.0, 0.5) for n in range(30)))
    assert shrink(plan, lambda plan: ()) is None
    found = shrink(plan, lambda plan: ["lost-write: 1"] if len(plan.faults) > 10 else [], 20)
    assert found is not None and found.runs <= 20 and 10 < len(found.plan.faults) < 30


def test_failures_of_one_kind_are_known_by_it() -> None:
    assert kind_of("lost-write: 3") == kind_of("lost-write: 17") != kind_of("unseen: 3")
    assert kind_of("I17 topic-0-1: 3 > 2") == kind_of("node-1: I17: high watermark 7") == "I17"
    assert kind_of("node-1#2: nobody has caught KeyError('x'): a") == kind_of("node-2#1: nobody has caught KeyError(1)")
    assert kind_of("not within 90 s: all replicas are equal: a") != kind_of("not within 90 s: every node is up: a")


def test_a_mutant_that_forgets_its_vote_is_told_by_the_kill_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumStateFile, "load", lambda _: None)
    monkeypatch.setattr(world, "HEAL_SECONDS", 8.0)
    kinds = (Kind.COLD, Kind.CUT, Kind.KILL)
    faults = tuple(Fault(1.0 + 0.5 * n, kind, n % 3, (n + 1) % 3, 0.4, 0.5) for n, kind in enumerate(kinds))
    found = shrink(small_plan(*faults, seconds=4.0), first_failure, 8, 1)
    assert found is not None and [fault.kind for fault in found.plan.faults] == [Kind.KILL]
    said = io.StringIO()
    with redirect_stdout(said):
        exec(program_of(found.plan), {})
    assert found.kind in {kind_of(line) for line in said.getvalue().splitlines()}, python_of(found.plan)
