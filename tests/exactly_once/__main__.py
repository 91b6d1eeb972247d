"""Read, process, write under faults: python -m tests.exactly_once --seconds 120 --records 200000.

    a topic of numbers ─► three members of one group ─► another topic, in transactions with the group's offsets

The members are ours (`penstock.process`), and those of confluent-kafka and of Java, through Kafka's door (`--kinds`).
They are killed (-9) and stand still beyond their session; nodes are killed, those of the coordinators too, stand still,
and are restarted one after the other. Then a reader of committed records must find every number exactly once, no
transaction is left open, and a reader of all records tells how many were aborted (reading.py). Exit code 1 if that is
not so, if a run had too few faults, or if nothing was aborted in any. With `--runs N` as many, with one seed after the
other.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.exactly_once.campaign import ALL_KINDS, KINDS, Outcome, run
from tests.support.campaign_directory import in_directory


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="of faults")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of the members: {', '.join(ALL_KINDS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if unknown := set(kinds) - set(ALL_KINDS):
        parser.error(f"no kind of member: {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    is_ok, aborted = True, 0
    for seed in range(arguments.seed, arguments.seed + arguments.runs):

        def one(directory: Path, seed: int = seed) -> Outcome:
            return run(directory, kinds, seed, arguments.records, arguments.seconds, say)

        outcome = in_directory("exactly-once", say, one)
        print(json.dumps({"seed": seed, "ok": outcome.ok, **outcome.facts()}), flush=True)
        is_ok, aborted = is_ok and outcome.ok, aborted + outcome.aborted
    if not aborted:
        say("no record was aborted: these runs show nothing of transactions that end in a fault; take another seed")
    return 0 if is_ok and aborted else 1


if __name__ == "__main__":
    sys.exit(main())
