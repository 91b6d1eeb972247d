"""The storage battery: `python -m tests.battery [--whole] [--seed N] [--mutants] [--only PART]`.

Prints one row for each part with how many of its cases came to what, then every case that is WRONG. The exit code is 0
only without any, and with `--mutants` if every mutant was noticed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator

from tests.battery import crashes, damage, failures, repair
from tests.battery.mutants import MUTANTS, cases_to_kill
from tests.battery.outcome import Outcome, Result, Size, Tally

PARTS: dict[str, Callable[[Size], Iterator[Result]]] = {
    "damage": damage.run,
    "crashes": crashes.run,
    "failures": failures.run,
    "repair": repair.run,
}
SHOWN = 200
"""Wrong cases that are printed in full."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.battery", description=__doc__)
    parser.add_argument("--whole", action="store_true", help="every case, not a sample")
    parser.add_argument("--seed", type=int, default=0, help="which sample, which bits, which luck")
    parser.add_argument("--only", choices=sorted(PARTS))
    parser.add_argument("--mutants", action="store_true", help="also make each mistake on purpose; it must be noticed")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    size = Size(options.whole, options.seed)
    tallies = {name: _run(name, part, size) for name, part in PARTS.items() if options.only in (None, name)}
    wrong = [result for tally in tallies.values() for result in tally.wrong]
    for result in wrong[:SHOWN]:
        print(f"WRONG {result.what}\n      {result.why}")
    survivors = _run_mutants(size) if options.mutants else 0
    return 1 if wrong or survivors else 0


def _run_mutants(size: Size) -> int:
    """How many mistakes nobody noticed."""
    survivors = 0
    for name, mutant in MUTANTS.items():
        cases, noticed = cases_to_kill(mutant, size)
        survivors += noticed is None
        how = f"killed by case {cases}: {noticed.what}" if noticed else f"SURVIVED {cases} cases"
        print(f"{name:38} {how}", flush=True)
    print(f"mutants killed {len(MUTANTS) - survivors}/{len(MUTANTS)}")
    return survivors


def _run(name: str, part: Callable[[Size], Iterator[Result]], size: Size) -> Tally:
    started_s = time.monotonic()
    tally = Tally().add(part(size))
    took_s = time.monotonic() - started_s
    counts = "  ".join(f"{outcome} {tally.counts[outcome]}" for outcome in Outcome)
    print(f"{name:10} {tally.cases:7} cases  {counts}  {took_s:.1f} s", flush=True)
    return tally


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
