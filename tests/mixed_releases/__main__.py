"""Two releases in one cluster, from the older to this one and back: python -m tests.mixed_releases --before TREE.

Progress goes to stderr, one JSON line a pass to stdout. Exit code 1 for anything that is wrong; the directory is then
kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.mixed_releases.campaign import Pass
from tests.mixed_releases.releases import Release
from tests.support.campaign_directory import in_directory

HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Every pass."""
    parser = argparse.ArgumentParser(prog="python -m tests.mixed_releases", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the tree of the older release")
    parser.add_argument("--times", type=int, default=1)
    arguments = parser.parse_args()
    before, now = Release("before", arguments.before.resolve()), Release("now", HERE)
    for release in (before, now):
        release.require()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    all_ok = True
    for number in range(arguments.times):
        outcome = in_directory("mixed-releases", say, lambda directory: Pass(directory, before, now, say).run())
        print(json.dumps({"pass": number + 1, "ok": outcome.ok, **asdict(outcome)}), flush=True)
        all_ok = all_ok and outcome.ok
    return 0 if all_ok else 1


if __name__ == "__main__":
    sys.exit(main())
