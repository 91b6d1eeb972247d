"""Logs that rot are made anew, and no emptied replica counts before it has caught up; each mistake is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.replication.rotting import ROT_MUTANTS, RottingWorld
from tests.simulation.replication.world import InvariantBroken, run_world

STEPS = 800
SEEDS_MAX = 60


@pytest.mark.parametrize("seed", range(6))
def test_nothing_acked_is_lost_while_logs_rot_and_are_made_anew(seed: int, tmp_path: Path) -> None:
    world = RottingWorld(seed, tmp_path)
    assert run_world(world, seed, STEPS) > 0
    assert world.rebuilt == world.rotten > 0


@pytest.mark.parametrize("name", ROT_MUTANTS)
def test_a_known_mistake_is_noticed(name: str, tmp_path: Path) -> None:
    for seed in range(SEEDS_MAX):
        try:
            run_world(RottingWorld(seed, tmp_path / str(seed), ROT_MUTANTS[name]), seed, STEPS)
        except InvariantBroken:
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice: {name}")
