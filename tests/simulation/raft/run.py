"""Run seeds, and mutants, of the quorum's simulation: `python -m tests.simulation.raft.run --seeds 500 [--mutants]`.

A failure prints the command that replays it. Every seed of `--twice` is run two times and must hash the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from penstock.errors import InvariantViolation
from tests.simulation.raft import faults
from tests.simulation.raft.changing_world import ChangingWorld
from tests.simulation.raft.mutants import FIRST_SEED, PATCHES, mutated
from tests.simulation.raft.naming_world import NamingWorld
from tests.simulation.raft.voter_mutants import FIRST_SEED as VOTER_FIRST_SEED
from tests.simulation.raft.voter_mutants import NAMING_FIRST_SEED, NAMING_PATCHES, VOTER_PATCHES
from tests.simulation.raft.world import World

FAULTY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed; `violation` is None when all went well."""

    seed: int
    violation: str | None
    digest: str
    events: int
    crashes: int
    losses: int
    committed: int
    snapshots: int = 0
    installed: int = 0


def simulate(seed: int, mutant: str | None = None) -> Outcome:
    """One history. Size and faults are drawn from the seed: 3 voters mostly, sometimes 5, 1, or with an observer."""
    random = Random(seed)
    voters = random.choice((3, 3, 3, 5, 5, 1))
    world = World(seed, faults.draw(random), voters, random.choice((0, 0, 1)), mutant)
    return _lived(world, seed, mutant)


def _lived(world: World, seed: int, mutant: str | None) -> Outcome:
    violation = None
    with mutated(mutant, ALL_PATCHES):
        try:
            world.live(FAULTY_MS)
        except (AssertionError, InvariantViolation) as error:  # Violated, or what the fakes do not stand for
            violation = f"{type(error).__name__}: {error}"
    counts = world.events, world.crashes, world.losses, world.oracle.committed_offset, world.snapshots, world.installed
    return Outcome(seed, violation, world.digest(), *counts)


def simulate_changes(seed: int, mutant: str | None = None) -> Outcome:
    """One history of a dynamic quorum: 1 to 3 first voters, and 2 or 3 nodes that join."""
    random = Random(seed)
    world = ChangingWorld(seed, faults.draw(random), random.choice((1, 3, 3)), random.choice((2, 3)), mutant)
    return _lived(world, seed, mutant)


def simulate_naming(seed: int, mutant: str | None = None) -> Outcome:
    """One history of a static quorum that becomes dynamic: 1 or 3 first voters, and 2 or 3 nodes that join."""
    random = Random(seed)
    world = NamingWorld(seed, faults.draw(random), random.choice((1, 3, 3)), random.choice((2, 3)), mutant)
    return _lived(world, seed, mutant)


KINDS: dict[str, Callable[[int, str | None], Outcome]] = {
    "static": simulate,
    "changes": simulate_changes,
    "naming": simulate_naming,
}
"""The histories that can be drawn."""


def seeds_to_kill(
    mutant: str, limit: int, first: int = 0, lived: Callable[[int, str], Outcome] = simulate
) -> tuple[int, str] | None:
    """How many seeds it takes until the mutant is noticed, and how; None when it survives `limit`."""
    for count in range(limit):
        violation = lived(first + count, mutant).violation
        if violation is not None:
            return count + 1, violation
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mutant", choices=sorted(ALL_PATCHES))
    parser.add_argument("--changes", action="store_true", help="histories of a quorum whose voters change")
    parser.add_argument("--naming", action="store_true", help="histories of a static quorum that becomes dynamic")
    parser.add_argument("--mutants", action="store_true", help="run every mutant until a seed kills it")
    parser.add_argument("--twice", action="store_true", help="run every seed twice and compare the hashes")
    options = parser.parse_args(arguments)
    kind = "naming" if options.naming else "changes" if options.changes else "static"
    if options.mutants:
        return _run_mutants(options.seeds, kind)
    one = KINDS[kind]
    started_s = time.monotonic()
    totals = [0] * 6
    failures = 0
    for seed in range(options.first, options.first + options.seeds):
        outcome = one(seed, options.mutant)
        found = outcome.events, outcome.crashes, outcome.losses, outcome.committed
        found += outcome.snapshots, outcome.installed
        totals = [a + b for a, b in zip(totals, found, strict=True)]
        if options.twice and one(seed, options.mutant).digest != outcome.digest:
            print(f"seed {seed}: two runs differ")
            failures += 1
        if outcome.violation is not None:
            failures += 1
            mutant = f" --mutant {options.mutant}" if options.mutant else ""
            mutant += "" if kind == "static" else f" --{kind}"
            print(f"seed {seed}: {outcome.violation}")
            print(f"  replay: python -m tests.simulation.raft.run --first {seed} --seeds 1{mutant}")
    took_s = time.monotonic() - started_s
    print(
        f"{options.seeds} seeds, {failures} failed, {totals[0]} events, {totals[1]} crashes, "
        f"{totals[2]} of them with a loss, {totals[3]} records committed, {totals[4]} snapshots written, "
        f"{totals[5]} installed, {took_s:.1f} s"
    )
    return 1 if failures else 0


MUTANTS = {
    "static": (PATCHES, FIRST_SEED),
    "changes": (VOTER_PATCHES, VOTER_FIRST_SEED),
    "naming": (NAMING_PATCHES, NAMING_FIRST_SEED),
}
"""The mutants that each kind of history must notice, and where to look first."""
ALL_PATCHES = PATCHES | VOTER_PATCHES | NAMING_PATCHES


def _run_mutants(limit: int, kind: str) -> int:
    killed, (patches, firsts) = 0, MUTANTS[kind]
    for mutant in patches:
        found = seeds_to_kill(mutant, limit, firsts.get(mutant, 0), KINDS[kind])
        killed += found is not None
        how = f"killed by seed number {found[0]}: {found[1][:150]}" if found else f"SURVIVED {limit} seeds"
        print(f"{mutant:36} {how}")
    print(f"mutants killed {killed}/{len(patches)}")
    return 0 if killed == len(patches) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
