"""Pipelines while their brokers and drivers die: python -m tests.pipelines_under_faults --seed 7.

    a process sends the click-stream ─► three nodes ─► bronze, killed three times ─► silver, killed once ─► gold, killed
                                          ▲ one is killed (-9) and comes back                      three times

Then the last entry of each query's commit log is deleted, and every job runs again. A second gold writes at least once,
and must have the duplicates that the first has not.

Progress goes to stderr, one JSON line to stdout. Exit code 1 when a check fails (verdict.py) or when the run proved
too little; the data directory is then kept, and named. The seed decides the events, the node that dies and at which
moments drivers die. The interleaving of the processes does not follow from it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.pipelines_under_faults.campaign import Config, run_campaign
from tests.pipelines_under_faults.verdict import Outcome
from tests.support.campaign_directory import in_directory
from tests.support.lake import SEED


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pipelines_under_faults", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--rate", type=int, default=1_000, help="events a second")
    parser.add_argument("--minutes", type=float, default=15.0, help="the run fails if it takes longer")
    arguments = parser.parse_args()
    config = Config(arguments.seed, arguments.events, arguments.rate, arguments.minutes * 60)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def run(directory: Path) -> Outcome:
        return run_campaign(config, directory, say)

    outcome = in_directory("pipelines", say, run)
    for name, holds in outcome.checks.items():
        say(f"{'holds' if holds else 'FAILS'}: {name}")
    print(json.dumps({"seed": config.seed, "ok": outcome.ok, **outcome.figures}))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
