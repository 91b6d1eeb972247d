"""Real clients against the door that speaks Kafka's protocol: a table, client by feature.

    python -m tests.interop.matrix [--clients kcat,kafkajs] [--features tail,kill] [--secure | --kafka DIR]

Three nodes on loopback, ours, or Apache Kafka with --kafka, the folder of a peers.py. With --secure the nodes have TLS
and ACLs, and each client logs in by SCRAM. What a client needs is installed
from its registry into a folder outside the repository (~/.cache/penstock-interop). Exit code 1 when a feature fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.interop.matrix import subjects
from tests.interop.matrix.clients import CLIENTS
from tests.interop.matrix.run import CHECKS, outcomes
from tests.interop.matrix.table import Outcome, print_table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names with commas; all without it")
    parser.add_argument("--features", default=",".join(CHECKS), help="names with commas; all without it")
    parser.add_argument("--kafka", type=Path, help="the folder of a peers.py: Apache Kafka instead of ours")
    parser.add_argument("--secure", action="store_true", help="over TLS, with log-ins and ACLs")
    arguments = parser.parse_args()
    if arguments.secure and arguments.kafka:
        parser.error("--secure is for our nodes; leave --kafka out")
    clients, features = arguments.clients.split(","), arguments.features.split(",")
    for known, given in ((CLIENTS, clients), (CHECKS, features)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    found: list[Outcome] = []
    with subjects.kafka(arguments.kafka) if arguments.kafka else subjects.penstock(secure=arguments.secure) as subject:
        for client in clients:
            for outcome in outcomes(subject, client, features):
                found.append(outcome)
                print(outcome, file=sys.stderr, flush=True)
        print_table(subject.name, clients, features, found)
    return 1 if any(outcome.state == "fails" for outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
