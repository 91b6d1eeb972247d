"""The fork matrix: `python -m tests.forks` prints what became of parents and children; exit code 1 if a row is wrong.

Real processes around a real node: each way to make children, with a client that is idle, busy or closed at that moment,
for children that make clients of their own, use the parent's, or fork again. Three children a row; a minute or two.
`tests/integration/test_forks.py` runs a few of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from penstock.testing import Cluster
from tests.support.fork_case import WORK

METHODS = ("fork", "os.fork", "forkserver", "spawn")
PARENTS = ("idle", "busy", "closed")
ROW_TIMEOUT_S = 120


def row(
    bootstrap: str, topic: str, method: str, parent: str, child: str, environment: dict[str, str]
) -> dict[str, object]:
    """One program of tests/support/fork_case.py; what it told, or how it ended without a word."""
    command = [sys.executable, "-m", "tests.support.fork_case", bootstrap, topic, method, parent, child]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ROW_TIMEOUT_S,
            env={**os.environ, **environment},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"children": "", "parent": f"not done in {ROW_TIMEOUT_S} s", "worst_s": ROW_TIMEOUT_S, "right": False}
    if done.returncode or done.stderr or not done.stdout:
        last_line = done.stderr.strip().splitlines()[-1:] or [""]
        return {"children": "", "parent": f"exit code {done.returncode}: {last_line[0]}", "worst_s": 0, "right": False}
    return dict(json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.forks", description="Clients and forks, as a table.")
    parser.add_argument("--fork-support", action="store_true", help="with GRPC_ENABLE_FORK_SUPPORT=1, as a user may")
    parser.add_argument("--repeat", type=int, default=1, help="so often each row (default: once)")
    options = parser.parse_args()
    environment = {"GRPC_ENABLE_FORK_SUPPORT": "1"} if options.fork_support else {}
    wrong = 0
    print(f"{'method':<11} {'parent':<7} {'child':<11} {'children':<12} {'worst ack':>9}  parent afterwards")
    with Cluster(nodes=1) as cluster:
        topic = cluster.topic()
        for method in METHODS:
            for parent in PARENTS:
                for child in WORK:
                    for _ in range(options.repeat):
                        found = row(cluster.bootstrap, topic, method, parent, child, environment)
                        wrong += not found["right"]
                        mark = "" if found["right"] else "  WRONG"
                        print(
                            f"{method:<11} {parent:<7} {child:<11} {found['children']:<12} {found['worst_s']:>7} s"
                            f"  {found['parent']}{mark}",
                            flush=True,
                        )
    print("every row is right" if not wrong else f"{wrong} rows are wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
