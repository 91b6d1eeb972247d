"""A small campaign of the quorum's simulation.

More: `python -m tests.simulation.raft.run --seeds N [--mutants] [--twice]`, or PENSTOCK_SIMULATION_SEEDS=N for these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.raft.mutants import FIRST_SEED, PATCHES, mutated
from tests.simulation.raft.run import seeds_to_kill, simulate, simulate_changes, simulate_naming
from tests.simulation.raft.voter_mutants import FIRST_SEED as VOTER_FIRST_SEED
from tests.simulation.raft.voter_mutants import NAMING_FIRST_SEED, NAMING_PATCHES, SEEN_BY_STORIES, VOTER_PATCHES
from tests.support.amount import at_night, usually

SEEDS = int(os.environ.get("PENSTOCK_SIMULATION_SEEDS", usually("4", long="30")))
MUTANT_SEEDS = 400
SLOW = (
    "one_epoch_is_enough",
    "forgetful_voter_votes",
    "forgetting_not_persisted",
    "vote_not_persisted",
    "snapshot_never_needed",
    "truncation_ignored",
)
"""Mistakes that take many seeds to be noticed."""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_invariants_hold_and_the_quorum_recovers(first: int) -> None:
    for seed in range(first, min(first + 10, SEEDS)):
        outcome = simulate(seed)
        assert outcome.violation is None, (
            f"seed {seed}: {outcome.violation}; python -m tests.simulation.raft.run --first {seed} --seeds 1"
        )


def test_seeds_that_once_failed_stay_good() -> None:
    """A high watermark was believed in an answer that truncates: 1026, 1715, 2604. The oracle was wrong: 12253."""
    assert [simulate(seed).violation for seed in (1026, 1715, 2604, 12253)] == [None] * 4


def test_same_seed_gives_the_same_history() -> None:
    assert simulate(3).digest == simulate(3).digest
    assert simulate(3).digest != simulate(4).digest


def test_history_does_not_depend_on_the_hash_seed() -> None:
    script = "from tests.simulation.raft.run import simulate; print(simulate(3).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {simulate(3).digest}


@pytest.mark.parametrize("mutant", at_night(PATCHES, SLOW))
def test_mutant_is_killed(mutant: str) -> None:
    found = seeds_to_kill(mutant, MUTANT_SEEDS, FIRST_SEED.get(mutant, 0))
    assert found is not None, f"{mutant} survived {MUTANT_SEEDS} seeds"
    print(f"{mutant}: killed by seed number {found[0]}: {found[1]}")


def test_mutants_leave_no_trace() -> None:
    before = [owner.__dict__[attribute] for patches in PATCHES.values() for owner, attribute, _ in patches]
    for mutant in PATCHES:
        with mutated(mutant):
            pass
    assert before == [owner.__dict__[attribute] for patches in PATCHES.values() for owner, attribute, _ in patches]


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_voters_change_and_invariants_hold(first: int) -> None:
    for seed in range(first, min(first + 10, SEEDS)):
        outcome = simulate_changes(seed)
        assert outcome.violation is None, (
            f"seed {seed}: {outcome.violation}; python -m tests.simulation.raft.run --first {seed} --seeds 1 --changes"
        )


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_a_static_quorum_becomes_dynamic_and_invariants_hold(first: int) -> None:
    for seed in range(first, min(first + 10, SEEDS)):
        outcome = simulate_naming(seed)
        assert outcome.violation is None, (
            f"seed {seed}: {outcome.violation}; python -m tests.simulation.raft.run --first {seed} --seeds 1 --naming"
        )


def test_nodes_with_an_old_file_once_did_not_follow_and_do_now() -> None:
    """Their log was empty, and their file did not name the leader."""
    assert [simulate_naming(seed).violation for seed in (4, 18, 44)] == [None] * 3


@pytest.mark.parametrize("mutant", NAMING_PATCHES)
def test_half_done_step_to_a_dynamic_quorum_is_noticed(mutant: str) -> None:
    found = seeds_to_kill(mutant, MUTANT_SEEDS, NAMING_FIRST_SEED.get(mutant, 0), simulate_naming)
    assert found is not None, f"{mutant} survived {MUTANT_SEEDS} seeds"


@pytest.mark.parametrize("mutant", [name for name in VOTER_PATCHES if name not in SEEN_BY_STORIES])
def test_mutant_of_changes_is_killed(mutant: str) -> None:
    found = seeds_to_kill(mutant, MUTANT_SEEDS, VOTER_FIRST_SEED.get(mutant, 0), simulate_changes)
    assert found is not None, f"{mutant} survived {MUTANT_SEEDS} seeds"
    print(f"{mutant}: killed by seed number {found[0]}: {found[1]}")
