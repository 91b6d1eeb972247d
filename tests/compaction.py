"""A compacted topic that is killed in mid-clean: python -m tests.compaction --history GIT_DIR [--history …] --kills 5.

Every commit of the git repositories becomes keyed updates, path to blob id; without a repository, made-up ones are
sent. Progress goes to stderr, one JSON line to stdout. Exit code 1 when a key has not its last value, or a kill met no
cleaning; the data directory is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.support.compaction_campaign import CompactionConfig, run_campaign

MADE_UP_UPDATES, MADE_UP_KEYS = 200_000, 5_000


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.compaction", description=__doc__.splitlines()[0])
    parser.add_argument("--history", type=Path, action="append", default=[], help="a git directory; may be repeated")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rate", type=int, default=20_000, help="updates a second")
    options = parser.parse_args()
    config = CompactionConfig(
        histories=tuple(options.history),
        updates=0 if options.history else MADE_UP_UPDATES,
        keys=MADE_UP_KEYS,
        kills=options.kills,
        seed=options.seed,
        nodes=options.nodes,
        records_per_s=options.rate,
    )
    result = run_campaign(config, lambda text: print(text, file=sys.stderr, flush=True))
    print(json.dumps({"seed": options.seed, **result.as_json()}))
    if not result.ok:
        print(f"kept: {result.directory}", file=sys.stderr)
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
