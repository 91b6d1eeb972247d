"""A consumer group under faults: python -m tests.groups_under_faults --minutes 10.

    a producer ─► 24 partitions on three nodes ─► six members of one group: three of ours, two of confluent-kafka by
                                                   the consumer protocol, one by the classic protocol

Members are killed (-9), stand still beyond their session (SIGSTOP), leave and come back; the coordinator's node is
killed, also together with a member; the nodes are restarted one after the other. Every record must be processed at
least once, no partition owned by two at a time, nothing committed that was not processed (verdict.py). Prints how long
the group was not stable after each kind of fault. With `--peers DIR` a real Kafka is under the members of
confluent-kafka: that says what this program itself takes for wrong. Exit code 1 for an anomaly, or for a run that
proved too little; the directory with the members' accounts is then kept, and named.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.groups_under_faults.campaign import KINDS, Nodes, Outcome, Run
from tests.groups_under_faults.clusters import kafka, penstock
from tests.support.campaign_directory import in_directory


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.groups_under_faults", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of the members: ours, consumer or classic")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the folder of a peers.py that starts Kafka")
    arguments = parser.parse_args()
    kinds = [kind for kind in arguments.kinds.split(",") if arguments.peers is None or kind != "ours"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def run(directory: Path) -> Outcome:
        start: Callable[[], AbstractContextManager[Nodes]] = penstock
        if arguments.peers is not None:
            start = lambda: kafka(arguments.peers.absolute())  # noqa: E731
        with start() as nodes:
            return Run(nodes, directory, kinds, arguments.seed, say).run(60 * arguments.minutes)

    outcome = in_directory("groups", say, run)
    for text in [*outcome.verdict.examples, *outcome.table()]:
        say(text)
    facts = {"anomalies": outcome.verdict.anomalies, "refused": outcome.refused}
    counts = {"records": outcome.records, "commits": outcome.commits, "faults": len(outcome.times)}
    print(json.dumps({"seed": arguments.seed, "ok": outcome.ok, **counts, **facts}))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
