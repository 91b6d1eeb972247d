"""Whole clusters of drawn shapes under drawn faults: nothing that was promised is lost, and all become whole again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.world import World
from tests.support.amount import usually

ROOT = Path(__file__).resolve().parents[3]
SEEDS = usually((2, 18), long=range(24))
"""Each takes some seconds of a processor. The rare stories are told by campaigns, and on purpose (mutants/)."""
SECONDS = 15.0
"""Half of a campaign's."""
RUN_TWICE = usually((2, 18), long=(4, 18))
RUN_S = usually(0.5, long=4.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_loses_nothing_and_becomes_whole(seed: int) -> None:
    outcome = World(draw_plan(seed, SECONDS)).run()
    assert not outcome.failures, "\n".join(
        [*outcome.failures, f"python -m tests.simulation.cluster --seed {seed} --seconds {SECONDS} --transcript"]
    )


def digest_of(seed: int) -> int:
    """The digest of every step of a seed."""
    return World(draw_plan(seed, RUN_S)).run().digest


def test_a_seed_is_a_whole_story_in_every_process() -> None:
    """In another one with other hashes, and after other seeds."""
    program = f"""
from tests.simulation.cluster.test_cluster_simulation import digest_of
print([digest_of(seed) for seed in {RUN_TWICE}])
"""
    environment = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout == f"{[digest_of(seed) for seed in reversed(RUN_TWICE)][::-1]}\n"
