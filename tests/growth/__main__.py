"""A cluster grows from three nodes to five and shrinks again, under clients: python -m tests.growth.

Progress goes to stderr, one JSON line to stdout. Exit code 1 when an acked record is missing or stands in
another way than promised, when replicas differ, or when a write failed; the data directory is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.growth.campaign import Outcome, run
from tests.growth.growing import NODES, Config, Growth
from tests.growth.operator import Operator
from tests.support.campaign_directory import in_directory


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="python -m tests.growth", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mib", type=int, default=128, help="of records that lie there before anything moves")
    parser.add_argument("--throttle-mib", type=int, default=8, help="a second, of each broker, while replicas move")
    arguments = parser.parse_args()
    config = Config(arguments.seed, arguments.mib << 20, arguments.throttle_mib << 20)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def story(operator: Operator) -> Growth:
        return Growth(config, operator)

    def begin(directory: Path) -> Outcome:
        return run(config.seed, [{}] * NODES, story, directory, say)

    outcome = in_directory("growth", say, begin)
    print(json.dumps(outcome.as_json()))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
