"""Spark's sink under faults: python -m tests.spark_exactly_once --rows 12000 --kills 3.

    a topic of numbers ─► a stream that shuffles them ─► another topic

The driver is killed (-9) at moments of its micro-batches, a node is killed and comes back, and the last entry of
the commit log is deleted (campaign.py). Then a reader of committed records must find every number exactly once, and
no transaction open. The same with `--semantics at-least-once` must show duplicates. Exit code 1 if that is not so, or
if no kill met a micro-batch. With `--runs N` as many, with one seed after the other.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.spark_exactly_once.campaign import AT_LEAST_ONCE, Outcome, run
from tests.support.campaign_directory import in_directory


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark_exactly_once", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--semantics", choices=("exactly-once", AT_LEAST_ONCE), default="exactly-once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    is_ok = True
    for seed in range(given.seed, given.seed + given.runs):

        def one(directory: Path, seed: int = seed) -> Outcome:
            return run(directory, given.semantics, seed, given.rows, given.kills, say, given.nodes)

        outcome = in_directory("spark-exactly-once", say, one)
        print(json.dumps({"seed": seed, "ok": outcome.ok, **outcome.facts()}), flush=True)
        is_ok = is_ok and outcome.ok
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
