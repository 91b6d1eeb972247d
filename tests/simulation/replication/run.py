"""The campaign: `python -m tests.simulation.replication.run [--seeds N] [--seed N] [--steps N] [--rot]`.

Runs seeds without mistakes (0 violations expected) and then every mutant until it is killed; one JSON line each. With
`--rot` it is the world in which logs rot and are made anew (rotting.py).
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.errors import CorruptMessageError
from tests.simulation.replication.mutants import MUTANTS
from tests.simulation.replication.rotting import ROT_MUTANTS, RottingWorld
from tests.simulation.replication.world import InvariantBroken, World, run_world

STEPS = 600
MUTANT_SEEDS_MIN = 600
"""The seeds that it takes to notice the rarest of them, with room to spare."""


MakeWorld = Callable[[int, Path], World]


def play(make: MakeWorld, seed: int, steps: int) -> int:
    """One seed in a directory of its own; the number of acked records."""
    with tempfile.TemporaryDirectory() as directory:
        return run_world(make(seed, Path(directory)), seed, steps)


def kill(make: MakeWorld, seeds: int, steps: int) -> int | None:
    """How many seeds it took to notice; None when none did."""
    for seed in range(seeds):
        try:
            play(make, seed, steps)
        except (InvariantBroken, CorruptMessageError):
            return seed + 1
    return None


def worlds(rot: bool) -> tuple[MakeWorld, dict[str, MakeWorld]]:
    """The good world, and one for each mistake."""
    if rot:
        return RottingWorld, {name: partial(RottingWorld, rot_rules=rules) for name, rules in ROT_MUTANTS.items()}
    return World, {name: partial(World, rules=rules) for name, rules in MUTANTS.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate a partition on three brokers.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seed", type=int, help="replay one seed")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rot", action="store_true", help="logs rot, too")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    good, mutants = worlds(options.rot)
    seeds = [options.seed] if options.seed is not None else range(options.seeds)
    acked = sum(play(good, seed, options.steps) for seed in seeds)
    print(json.dumps({"seeds": len(seeds), "acked": acked, "violations": 0}))
    if options.seed is not None:
        return 0
    survivors = 0
    for name, make in mutants.items():
        seeds_to_kill = kill(make, max(options.seeds, MUTANT_SEEDS_MIN), options.steps)
        survivors += seeds_to_kill is None
        print(json.dumps({"mutant": name, "seeds_to_kill": seeds_to_kill}), flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
