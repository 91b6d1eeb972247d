"""Faults on a real cluster under load: python -m tests.chaos --seeds 1..10 --minutes 2 [--only kill] [--secure].

Every seed is a run of its own on three node processes. Progress goes to stderr; stdout has one JSON line for each seed
and a summary. Exit code 1 on any anomaly (ledger.py says which there are); the directory with the data, the nodes' logs
and history.jsonl is then kept and named, together with the command that plays the seed again.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter

from tests.chaos.campaign import Config, playable, run_campaign
from tests.chaos.faults import Kind

SPARK_READS = 6
SPARK_FROM_MINUTES = 1.0
"""Shorter runs do without Spark, whose start takes ten seconds."""


def main() -> int:
    """Runs every seed."""
    options = _parser().parse_args()
    logging.getLogger().addHandler(logging.NullHandler())  # stderr is for the progress; the history has the log
    kinds = playable(tuple(Kind(name) for name in options.only) or tuple(Kind), _say)
    spark_reads = options.spark_reads
    if spark_reads is None:
        spark_reads = SPARK_READS if options.minutes >= SPARK_FROM_MINUTES else 0
    found: Counter[str] = Counter()
    bad: list[int] = []
    for seed in options.seeds:
        outcome = run_campaign(Config(seed, options.minutes, kinds, spark_reads, secure=options.secure), _say)
        print(json.dumps(outcome.as_json()), flush=True)
        found.update(outcome.wrong)
        if not outcome.ok:
            bad.append(seed)
            only = "".join(f" --only {name}" for name in options.only)
            again = f"--seed {seed} --minutes {options.minutes:g} --spark-reads {spark_reads}{only}"
            again += " --secure" if options.secure else ""
            _say(f"kept: {outcome.directory}, with history.jsonl; again: python -m tests.chaos {again}")
    print(json.dumps({"seeds": len(options.seeds), "ok": not bad, "bad_seeds": bad, "anomalies": dict(found)}))
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Faults under load; lose nothing.")
    parser.add_argument("--minutes", type=float, default=1.0, help="of faults, for each seed")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", dest="seeds", type=lambda text: range(int(text), int(text) + 1))
    seeds.add_argument("--seeds", dest="seeds", type=_seeds, metavar="A..B", help="one run for each, B included")
    parser.set_defaults(seeds=range(1, 2))
    parser.add_argument("--only", action="append", default=[], choices=[str(kind) for kind in Kind], metavar="FAULT")
    parser.add_argument("--secure", action="store_true", help="TLS, log-ins and ACLs; certificates are replaced")
    parser.add_argument("--spark-reads", type=int, help=f"at most; {SPARK_READS} from {SPARK_FROM_MINUTES:g} minute on")
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
