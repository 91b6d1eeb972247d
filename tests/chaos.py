"""The kill campaign as a command: python -m tests.chaos --kills 20 [--seed 1].

Progress goes to stderr, one JSON line to stdout. Exit code 1 when anything is lost, changed or different between
replicas; the data directory is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.support.kill_campaign import CampaignConfig, run_campaign


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Kill nodes under load; lose nothing.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--impatient", action="store_true", help="the next kill does not wait for whole ISRs")
    arguments = parser.parse_args()
    config = CampaignConfig(kills=arguments.kills, seed=arguments.seed, whole_isr=not arguments.impatient)
    result = run_campaign(config, lambda text: print(text, file=sys.stderr, flush=True))
    print(json.dumps({"seed": arguments.seed, **result.as_json()}))
    if not result.ok:
        print(f"kept: {result.directory}", file=sys.stderr)
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
