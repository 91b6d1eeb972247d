"""Spark's sink under faults: python -m tests.spark_exactly_once [--runs N] [--only WORD …] [--mutants].

    a topic of numbers ─► a stream that shuffles them ─► another topic

Kills: the driver is killed (-9) at moments of its micro-batches, a node is killed and comes back, and the last entry of
the commit log is deleted (campaign.py). Then a reader of committed records must find every number exactly once, and
no transaction open. The same with `--semantics at-least-once` must show duplicates.

Faults: a seed draws one of each kind, lost plans, checkpoints that are set back, failed tasks, names that begin alike,
joined tables and slow batches (faults/table.py). What the query and readers must see after each is its row in the table
of docs/spark.md (faults/promise.py). Nine seeds in a row play all; `--only` plays those whose names have a word
(`--list` prints them, `kills` is one), and `--mutants` plays mistakes of the product, each of which must be noticed.

Prints a line of JSON for each. Exit code 1 if anything is not as promised, if no kill met a micro-batch, or if a mutant
is not noticed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.spark_exactly_once.campaign import AT_LEAST_ONCE, Outcome, run
from tests.spark_exactly_once.faults import table
from tests.support.campaign_directory import in_directory

KILLS = "kills"


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark_exactly_once",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=12_000, help="numbers in the topic of the kills")
    parser.add_argument("--kills", type=int, default=3, help="of the driver")
    parser.add_argument("--nodes", type=int, default=3, help="of the kills' cluster; the faults have one")
    parser.add_argument(
        "--semantics",
        choices=("exactly-once", AT_LEAST_ONCE),
        default="exactly-once",
        help=f"{AT_LEAST_ONCE}: the kills alone, which must show duplicates",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="so many, with one seed after the other")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="parts of the names that are played")
    parser.add_argument("--list", action="store_true", help="print the names of the faults, and play nothing")
    parser.add_argument("--mutants", action="store_true", help="mistakes instead; --only then takes words of theirs")
    given = parser.parse_args()
    if given.list:
        print("\n".join((KILLS, *table.names())))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    if given.mutants:
        from tests.spark_exactly_once.faults.mutants import run_all

        return 0 if run_all(given.only, given.seed, _say) else 1
    wrong = [word for word in given.only if not any(word in name for name in (KILLS, *table.names()))]
    if wrong:
        parser.error(f"no fault is named so: {', '.join(wrong)}; --list prints their names")
    seeds = range(given.seed, given.seed + given.runs)
    results = [_kills(given, seed) for seed in seeds if not given.only or any(word in KILLS for word in given.only)]
    if given.semantics != AT_LEAST_ONCE:
        results += [_faults(given.only, seeds)]
    return 0 if all(results) else 1


def _kills(given: argparse.Namespace, seed: int) -> bool:
    def one(directory: Path) -> Outcome:
        return run(directory, given.semantics, seed, given.rows, given.kills, _say, given.nodes)

    outcome = in_directory("spark-exactly-once", _say, one)
    print(json.dumps({"seed": seed, "ok": outcome.ok, **outcome.facts()}), flush=True)
    return outcome.ok


def _faults(only: list[str], seeds: range) -> bool:
    """The faults of all seeds, on one session of Spark."""
    drawn = [fault for seed in seeds for fault in (table.named(only, seed) if only else table.drawn(seed))]

    def tell(played: table.Played) -> None:
        print(json.dumps(played.facts()), flush=True)

    return not drawn or in_directory("spark-faults", _say, lambda directory: table.play(directory, drawn, tell)).ok


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
