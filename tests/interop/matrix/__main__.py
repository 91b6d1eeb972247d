"""Real clients against the listener that speaks Kafka's protocol: a table, client by feature.

    python -m tests.interop.matrix [--clients kcat,sarama@1.45.0] [--features tail,kill] [--secure | --kafka DIR]
    python -m tests.interop.matrix --each-version --record
    python -m tests.interop.matrix --table

Three nodes on loopback, ours, or Apache Kafka with --kafka, the folder of a peers.py. With --secure the nodes have TLS
and ACLs, and each client logs in by SCRAM. What a client needs is installed from its registry into a folder outside the
repository (~/.cache/penstock-interop), each version by itself. --record keeps what came of whole runs in results.json,
and --table writes it into docs/kafka-clients.md. Exit code 1 when a feature fails.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.interop.matrix import results, subjects
from tests.interop.matrix.clients import CLIENTS, VERSIONS, name_of
from tests.interop.matrix.run import CHECKS, outcomes
from tests.interop.matrix.table import Outcome, print_table


def main() -> int:
    parser, arguments = _arguments()
    if arguments.table:
        results.write_page()
        return 0
    clients = list(VERSIONS) if arguments.each_version else arguments.clients.split(",")
    features = arguments.features.split(",")
    for known, given in ((CLIENTS, set(map(name_of, clients))), (CHECKS, set(features))):
        if unknown := given - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if arguments.record and set(features) != set(CHECKS):
        parser.error("--record keeps whole runs: leave --features out")
    found: list[Outcome] = []
    with subjects.kafka(arguments.kafka) if arguments.kafka else subjects.penstock(secure=arguments.secure) as subject:
        for client in clients:
            of_client: list[Outcome] = []
            for outcome in outcomes(subject, client, features):
                of_client.append(outcome)
                print(outcome, file=sys.stderr, flush=True)
            if arguments.record:
                results.keep(subject.name, of_client, datetime.now(UTC).date())
            found += of_client
        print_table(subject.name, clients, features, found)
    return 1 if any(outcome.state == "fails" for outcome in found) else 0


def _arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--clients", default=",".join(CLIENTS), help="NAME or NAME@VERSION, with commas; all without it"
    )
    parser.add_argument("--each-version", action="store_true", help="the versions of the page's table instead")
    parser.add_argument("--features", default=",".join(CHECKS), help="names with commas; all without it")
    parser.add_argument("--kafka", type=Path, help="the folder of a peers.py: Apache Kafka instead of ours")
    parser.add_argument("--secure", action="store_true", help="over TLS, with log-ins and ACLs")
    parser.add_argument("--record", action="store_true", help="keep what came of each client in results.json")
    parser.add_argument("--table", action="store_true", help="write docs/kafka-clients.md's table, and run nothing")
    arguments = parser.parse_args()
    if arguments.secure and arguments.kafka:
        parser.error("--secure is for our nodes; leave --kafka out")
    return parser, arguments


if __name__ == "__main__":
    sys.exit(main())
