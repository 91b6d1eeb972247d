"""Whole clusters of drawn shapes under drawn faults: nothing that was promised is lost, and all become whole again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.world import World

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_loses_nothing_and_becomes_whole(seed: int) -> None:
    outcome = World(draw_plan(seed)).run()
    assert not outcome.failures, "\n".join(
        [*outcome.failures, f"python -m tests.simulation.cluster --seed {seed} --transcript"]
    )


def digest_of(seed: int, hash_seed: str) -> str:
    """The digest of every step of a seed, in a process of its own."""
    program = f"""
from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.world import World
print(World(draw_plan({seed}, 8.0)).run().digest)
"""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("seed", [4, 7])
def test_a_seed_is_a_whole_story_in_every_process(seed: int) -> None:
    assert digest_of(seed, "1") == digest_of(seed, "2")
