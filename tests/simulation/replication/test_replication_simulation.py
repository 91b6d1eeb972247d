"""The partition's invariants hold under crashes, lost answers and stale leaders, and each known mistake is noticed.

Small numbers here; the campaign is `python -m tests.simulation.replication.run --seeds 1000`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import CorruptMessageError
from tests.simulation.replication.mutants import MUTANTS
from tests.simulation.replication.world import InvariantBroken, run

STEPS = 600
SEEDS_MAX = 500
LIKELY_SEEDS = (22, 2, 3, 5, 9)
"""Tried first, because they have killed a mutant before; any other that does is as good."""


@pytest.mark.parametrize("seed", range(5))
def test_nothing_acked_is_lost_and_the_replicas_converge(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, STEPS) > 0


def test_a_seed_is_the_same_run_twice(tmp_path: Path) -> None:
    assert run(7, tmp_path / "a", STEPS) == run(7, tmp_path / "b", STEPS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_known_mistake_is_noticed(name: str, tmp_path: Path) -> None:
    for number, seed in enumerate((*LIKELY_SEEDS, *range(SEEDS_MAX))):
        try:
            run(seed, tmp_path / str(number), STEPS, MUTANTS[name])
        except (InvariantBroken, CorruptMessageError):
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice: {name}")
