"""How long writes stop when a leader goes: python -m tests.failover --how hang --times 20.

Progress goes to stderr, one JSON line to stdout. Exit code 1 when an acked record is missing in the end, or is in the
log more often than the producer says it may be; the data directory is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.failover.faults import HOWS
from tests.failover.measure import Config, Outcome, measure
from tests.support.campaign_directory import in_directory


def main() -> int:
    """Measures one way to go."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--how", choices=HOWS, default="kill", help="what happens to the leader")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--time-outs",
        choices=("tests", "product"),
        default="tests",
        help="whose sessions: tests', or a node's defaults",
    )
    parser.add_argument("--controller", action="store_true", help="a leader that is the active controller, each time")
    arguments = parser.parse_args()
    product = arguments.time_outs == "product"
    config = Config(arguments.how, arguments.times, arguments.seed, product, arguments.controller)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def run(directory: Path) -> Outcome:
        return measure(config, directory, say)

    outcome = in_directory("failover", say, run)
    print(json.dumps(outcome.as_json()))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
