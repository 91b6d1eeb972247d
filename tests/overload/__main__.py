"""Three nodes are offered three times the records that they can take: python -m tests.overload.

Progress goes to stderr, one JSON line to stdout. Exit code 1 when anything was elected, fenced, lost or disordered,
when a node took too much memory, when less was offered, or when acks stayed slow; the data is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.overload.campaign import Config, Outcome, run
from tests.support.campaign_directory import in_directory


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="python -m tests.overload", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=float, default=3.0, help="of the rate that the cluster takes")
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload")
    parser.add_argument("--measure", type=float, default=15.0, help="seconds in which the rate is measured")
    parser.add_argument("--processes", type=int, default=3, help="that send")
    parser.add_argument("--request-timeout-ms", type=int, default=5_000, help="of the producers that overload")
    parser.add_argument("--memory-mib", type=int, default=256, help="that a node may take at most")
    parser.add_argument("--recover", type=int, default=15, help="seconds until acks must be as quick as before")
    given = parser.parse_args()
    config = Config(
        given.times,
        given.seconds,
        given.measure,
        given.processes,
        given.request_timeout_ms,
        given.memory_mib,
        given.recover,
    )

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(directory: Path) -> Outcome:
        return run(config, directory, say)

    outcome = in_directory("overload", say, begin)
    print(json.dumps(outcome.as_json()))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
