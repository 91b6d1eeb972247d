"""The campaign: `python -m tests.simulation.replication.run [--seeds N] [--seed N] [--steps N]`.

Runs seeds without mistakes (0 violations expected) and then every mutant until it is killed; one JSON line each.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path

from penstock.errors import CorruptMessageError
from tests.simulation.replication.mutants import MUTANTS
from tests.simulation.replication.world import InvariantBroken, Rules, run

STEPS = 600
MUTANT_SEEDS_MIN = 200
"""What it takes to notice the rarest of them, with room to spare."""


def kill(rules: Rules, seeds: int, steps: int) -> int | None:
    """How many seeds it took to notice; None when none did."""
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as directory:
            try:
                run(seed, Path(directory), steps, rules)
            except (InvariantBroken, CorruptMessageError):
                return seed + 1
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate a partition on three brokers.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seed", type=int, help="replay one seed")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    acked = 0
    for seed in [options.seed] if options.seed is not None else range(options.seeds):
        with tempfile.TemporaryDirectory() as directory:
            acked += run(seed, Path(directory), options.steps)
    print(json.dumps({"seeds": 1 if options.seed is not None else options.seeds, "acked": acked, "violations": 0}))
    if options.seed is not None:
        return 0
    survivors = 0
    for name, rules in MUTANTS.items():
        seeds_to_kill = kill(rules, max(options.seeds, MUTANT_SEEDS_MIN), options.steps)
        survivors += seeds_to_kill is None
        print(json.dumps({"mutant": name, "seeds_to_kill": seeds_to_kill}), flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
