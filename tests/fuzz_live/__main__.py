"""Hostile clients against a live cluster: python -m tests.fuzz_live --minutes 20 --seed 1 [--only ATTACK …].

Every RPC of every service goes to every listener of three nodes: hostile fields, damaged bytes, streams in any order
and ending, floods; and the attacks of attacks.py. With `--door kafka` it is every API of Kafka's protocol in every
version, and the attacks of kafka/attacks.py. An honest client works beside them and is judged. Progress goes to stderr,
one JSON line to stdout; exit code 1 when a promise is broken (campaign.py says which there are), with the directory
kept and the command that plays the seed again. Loopback only; every attack is bounded in count and time.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys

from tests.fuzz_live.campaign import Config, run_campaign
from tests.fuzz_live.doors import DOORS

BASELINE_S = 60.0


def main() -> int:
    """Runs one seed."""
    parser = _parser()
    options = parser.parse_args()
    known = DOORS[options.door].attacks
    if unknown := {*options.only, *options.skip} - known.keys():
        parser.error(f"no attack on this door: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    logging.disable(logging.CRITICAL)
    attacks = [name for name in options.only or known if name not in options.skip]
    config = Config(
        options.seed,
        options.minutes,
        options.baseline_seconds,
        attacks,
        options.memory_mib,
        options.door,
        options.first,
    )
    outcome = run_campaign(config, lambda text: print(text, file=sys.stderr, flush=True))
    print(json.dumps(outcome.as_json()))
    if not outcome.ok:
        chosen = "".join(f" --only {name}" for name in options.only) + "".join(
            f" --skip {name}" for name in options.skip
        )
        again = f"--door {options.door} --seed {options.seed} --minutes {options.minutes:g}{chosen}"
        print(f"kept: {outcome.directory}; again: python -m tests.fuzz_live {again}", file=sys.stderr)
        print("--first N begins with the attack of that number", file=sys.stderr)
    return 0 if outcome.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz_live", description="Hostile clients, and an honest one."
    )
    parser.add_argument("--door", choices=list(DOORS), default="grpc")
    parser.add_argument("--minutes", type=float, default=1.0, help="of attacks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with the attack of this number")
    parser.add_argument("--baseline-seconds", type=float, default=BASELINE_S, help="of the honest client alone")
    parser.add_argument("--memory-mib", type=int, default=Config(0).memory_mib, help="that a node may have resident")
    parser.add_argument("--only", action="append", default=[], metavar="ATTACK")
    parser.add_argument("--skip", action="append", default=[], metavar="ATTACK")
    return parser


if __name__ == "__main__":
    sys.exit(main())
