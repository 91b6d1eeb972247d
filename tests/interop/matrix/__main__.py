"""Real clients against the door that speaks Kafka's protocol: a table, client by feature.

    python -m tests.interop.matrix [--clients kcat,kafkajs] [--features tail,kill] [--kafka DIR]

Three nodes on loopback, ours, or Apache Kafka with --kafka, the folder of a peers.py. What a client needs is installed
from its registry into a folder outside the repository (~/.cache/penstock-interop). Exit code 1 when a feature fails.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.interop.matrix import subjects
from tests.interop.matrix.checks import CHECKS, Stage
from tests.interop.matrix.clients import CLIENTS, REFERENCE, Command, MissingError
from tests.interop.matrix.process import ClientError, DriverProcess, NotOfferedError
from tests.interop.matrix.table import Outcome, print_table


def start(command: Command, bootstrap: str) -> DriverProcess:
    return DriverProcess(command.words, bootstrap, command.folder, command.environment)


def run_client(subject: subjects.Subject, name: str, features: list[str]) -> Iterator[Outcome]:
    """The outcome of each feature, as it comes. After a failure there is a new process: the old one is in its midst."""
    try:
        command = CLIENTS[name]()
    except MissingError as error:
        yield Outcome(name, "", "missing", str(error))
        return
    another_client = functools.partial(start, command, subject.bootstrap)
    another_reference = functools.partial(start, CLIENTS[REFERENCE](), subject.bootstrap)
    reference, client = another_reference(), another_client()
    with reference:
        for feature in features:
            began = time.monotonic()
            stage = Stage(subject, client, reference, another_client, another_reference, f"{name}-{feature}")
            state, why = "ok", ""
            try:
                CHECKS[feature](stage)
            except NotOfferedError as error:
                state, why = "not offered", str(error)
            except Exception as error:
                is_plain = isinstance(error, ClientError | AssertionError)
                state, why = "fails", str(error) if is_plain else repr(error)
                client.__exit__()
                client = another_client()
            yield Outcome(name, feature, state, why, command.version, time.monotonic() - began)
        client.__exit__()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names with commas; all without it")
    parser.add_argument("--features", default=",".join(CHECKS), help="names with commas; all without it")
    parser.add_argument("--kafka", type=Path, help="the folder of a peers.py: Apache Kafka instead of ours")
    arguments = parser.parse_args()
    clients, features = arguments.clients.split(","), arguments.features.split(",")
    for known, given in ((CLIENTS, clients), (CHECKS, features)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    outcomes: list[Outcome] = []
    with subjects.kafka(arguments.kafka) if arguments.kafka else subjects.penstock() as subject:
        for client in clients:
            for outcome in run_client(subject, client, features):
                outcomes.append(outcome)
                print(outcome, file=sys.stderr, flush=True)
        print_table(subject.name, clients, features, outcomes)
    return 1 if any(outcome.state == "fails" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
