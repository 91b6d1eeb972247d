"""Stories of metadata logs that are damaged, or older than they were, each with the mistake that it brings out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.quorum.voter_memory import DoubtfulCuts
from tests.simulation.cluster import old_copies
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.simulation.cluster.plan import Fault, Kind, NodePlan, Plan
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import Outcome, World
from tests.support.amount import at_night

ZEROS, CHECKSUM, EPOCH = 0.9095, 0.9195, 0.7755
"""Amounts of a fault that damages the last batch: the whole, its checksum, its leader epoch."""


def run(plan: Plan, *edits: Edit) -> Outcome:
    with switched_on(Mutant("", "", edits) if edits else None):
        return World(plan).run()


def torn(amount: float) -> Plan:
    """One voter after the other has its last batch damaged: one of them leads the quorum."""
    return small_plan(*(Fault(1.0 + 2 * node, Kind.TEAR_METADATA, node, 0, 1.0, amount) for node in range(3)))


def torn_alone(amount: float) -> Plan:
    """The same of the only voter."""
    plan = small_plan(Fault(1.0, Kind.TEAR_METADATA, 0, 1, 2.0, amount))
    return replace(plan, nodes=(NodePlan(True, True, 1, 1.0), *(NodePlan(True, False, 1, 1.0),) * 2))


def restored(seconds: float = 3.0) -> Plan:
    """A leader of the quorum comes and goes between the copy and its return."""
    return small_plan(
        Fault(0.5, Kind.RESTORE_COPY, 0, 1, seconds, 0.5),
        *(Fault(1.0 + node, Kind.KILL, node, 0, 0.5, 0.5) for node in range(3)),
        seconds=8.0,
    )


@pytest.mark.parametrize("amount", at_night([ZEROS, CHECKSUM, EPOCH], [ZEROS, EPOCH]))
def test_voter_whose_last_batch_is_damaged_learns_it_again(amount: float) -> None:
    outcome = run(torn(amount))
    assert not outcome.failures, outcome.failures
    assert (outcome.faults["TEAR_METADATA"], outcome.faults["TEAR_METADATA left out"]) == (3, 0)


def test_voter_that_says_nothing_of_a_damaged_end_is_noticed() -> None:
    silent = Edit(DoubtfulCuts.__call__, "quorum_state.save(replace(state, forgotten=Forgotten.RECORDS))", "pass")
    failures = [failure for amount in (CHECKSUM, EPOCH) for failure in run(torn(amount), silent).failures]
    assert any("I5: " in failure for failure in failures)


@pytest.mark.parametrize("amount", at_night([ZEROS, CHECKSUM, EPOCH], [ZEROS, CHECKSUM]))
def test_only_voter_refuses_a_damaged_end(amount: float) -> None:
    outcome = run(torn_alone(amount))
    assert not outcome.failures, outcome.failures
    assert not outcome.faults["TEAR_METADATA left out"]


def test_older_copy_of_a_node_learns_what_it_forgot() -> None:
    outcome = run(restored())
    assert not outcome.failures, outcome.failures
    assert not outcome.faults["RESTORE_COPY left out"]


def test_older_copy_that_keeps_its_votes_is_noticed() -> None:
    keeps = Edit(old_copies._put_back, "_tell_that_it_forgot(machine)", "pass")
    assert any("I2: " in failure or "I3: " in failure for failure in run(restored(), keeps).failures)
