"""Transactions beside a real Kafka: how many a second, how long a commit takes, and what reading committed costs.

    python -m benchmarks.transactions [--quick] [--pairs 3] [--peers DIR]

Three nodes of each system in turn, in pairs, as in benchmarks/broker.py: a JSON line a row, then medians, ratios and
goals. One client, confluent-kafka, drives both (transactions_client.py); rows `own client` are ours on ours, beside
confluent-kafka on Kafka. One producer has transactions of 1, 10 and 100 records of 100 B over three partitions, one
after the other: transactions/s, and p50 and p99 of the call that commits, in which the records are flushed, too. Then
a topic of committed transactions is read at both isolation levels, in turns within one process; the last block of the
table has those beside each other. Producers without transactions are benchmarks/broker.py's.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks.broker_goals import Comparison, print_table
from benchmarks.transactions_client import LEVELS, PARTITIONS

NODES = 3
PAIRS = 3
TRANSACTION_RECORDS = (1, 10, 100)
FILL_RECORDS = 1_000
"""Records of each transaction of the topic that is read."""
CLIENT_TIMEOUT_S = 300
COMMITTED, UNCOMMITTED = LEVELS
WARM_PASSES_MAX, STILL_WARMING = 4, 0.8
READ_AT_LEAST = 0.97
"""The rate of reading committed records, divided by that of reading all."""

Row = dict[str, Any]
Start = Callable[[], AbstractContextManager[systems.System]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    warm_s: int
    commit_s: int
    read_records: int
    passes: int


FULL = Size(warm_s=15, commit_s=20, read_records=600_000, passes=15)
QUICK = Size(warm_s=4, commit_s=5, read_records=200_000, passes=7)


def session(start: Start, size: Size, pair: int) -> Iterator[Row]:
    """Every row of one fresh cluster."""
    with start() as system:
        base: Row = {"system": system.name, "nodes": NODES, "pair": pair, "row": "figures"}
        libraries = ("kafka",) if system.name.startswith("kafka") else ("kafka", "penstock")
        for library in libraries:
            _warm_up(system, library, size)
        for records in TRANSACTION_RECORDS:
            for library in libraries:
                what = f"{records} records, {library}"
                yield base | {"what": what, "figures": _commits(system, library, records, size)}
        system.create_topic("read", PARTITIONS)
        measured = _client(system, "kafka", "fill", "read", size.read_records, FILL_RECORDS)
        if "error" in measured:
            yield base | {"what": "fill", "figures": measured}
            return
        for library, role in (("kafka", "read"), ("penstock", "read"), ("penstock", "read_arrow")):
            if library in libraries:
                measured = _client(system, library, role, "read", size.read_records, size.passes)
                yield from (base | row for row in _reads(system.name, f"{role}-{library}", measured))


def _warm_up(system: systems.System, library: str, size: Size) -> None:
    """Passes until one is not much faster than the one before: a JVM needs many seconds to get warm."""
    system.create_topic(f"warm-{library}", PARTITIONS)
    before = 0.0
    for _ in range(WARM_PASSES_MAX):
        measured = _client(system, library, "commit", f"warm-{library}", size.warm_s, 10)
        rate = measured.get("transactions_per_s", 0.0)
        if before and rate * STILL_WARMING <= before:
            return
        before = rate


def _commits(system: systems.System, library: str, records: int, size: Size) -> Row:
    topic = f"commit-{records}-{library}"
    system.create_topic(topic, PARTITIONS)
    cpu = systems.cpu_seconds(system)
    measured = _client(system, library, "commit", topic, size.commit_s, records)
    if "error" in measured:
        return measured
    cpu_ms = 1000 * (systems.cpu_seconds(system) - cpu) / measured["all_transactions"]
    named = {
        "rate": measured["transactions_per_s"],
        "p50": measured["p50_ms"],
        "p99": measured["p99_ms"],
        "cpu": round(cpu_ms, 3),
    }
    return {f"{name}-{records}-{library}": figure for name, figure in named.items()}


def _reads(system: str, figure: str, measured: Row) -> Iterator[Row]:
    """The uncommitted figures of ours become a peer of the committed ones."""
    if "error" in measured:
        yield {"what": figure, "figures": measured}
        return
    share = round(measured[COMMITTED] / measured[UNCOMMITTED], 3)
    yield {"what": figure, "figures": {figure: measured[COMMITTED], f"{figure}-share": share}}
    if system == "penstock":
        yield {"what": figure, "system": UNCOMMITTED, "figures": {figure: measured[UNCOMMITTED]}}


def _client(system: systems.System, library: str, role: str, topic: str, amount: int, records: int) -> Row:
    """One client process to its end; what it said, or its error."""
    bootstrap = system.kafka_bootstrap if library == "kafka" else system.bootstrap
    command = [sys.executable, "-m", "benchmarks.transactions_client", library, role, bootstrap, topic]
    command += [str(amount), str(records)]
    done = subprocess.run(
        command, cwd=systems.ROOT, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-500:]}
    shown: Row = json.loads(done.stdout)
    return shown


def comparisons(peer: str, nodes: int) -> list[Comparison]:
    """Every line of the table beside one peer."""
    readers = {
        "read-kafka": "confluent-kafka",
        "read-penstock": "own client, records",
        "read_arrow-penstock": "own client, Arrow",
    }
    if peer == UNCOMMITTED:
        titles = {figure: f"read committed, {name}" for figure, name in readers.items()}
        return [Comparison(title, figure, figure, at_least=READ_AT_LEAST) for figure, title in titles.items()]
    lines = []
    for library, name in (("kafka", ""), ("penstock", ", own client")):
        for records in TRANSACTION_RECORDS:
            ours, theirs = f"{records}-{library}", f"{records}-kafka"
            title = f"transactions/s of {records}{name}"
            lines += [
                Comparison(title, f"rate-{ours}", f"rate-{theirs}", at_least=1.0),
                Comparison("  commit p50, ms", f"p50-{ours}", f"p50-{theirs}"),
                Comparison("  commit p99, ms", f"p99-{ours}", f"p99-{theirs}"),
                Comparison("  processor time of the nodes, ms", f"cpu-{ours}", f"cpu-{theirs}"),
            ]
    for figure, name in readers.items():
        lines.append(Comparison(f"read committed/s, {name}", figure, "read-kafka"))
        lines.append(Comparison("  its part of uncommitted", f"{figure}-share", "read-kafka-share"))
    return lines


def all_starts(peers: Path | None, *, is_quick: bool) -> list[Start]:
    """The systems of one turn, in order."""
    starts: list[Start] = [functools.partial(systems.penstock, NODES)]
    if peers is not None:
        starts.append(functools.partial(systems.kafka, peers, NODES))
        if not is_quick:
            starts.append(functools.partial(systems.kafka, peers, NODES, fsync=True))
    return starts


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pair, shorter, Kafka without fsync: under 4 minutes")
    parser.add_argument("--pairs", type=int, help=f"turns of each system; {PAIRS} without --quick")
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it ours alone")
    arguments = parser.parse_args()
    peers: Path | None = arguments.peers.absolute() if arguments.peers is not None else None
    if missing := systems.missing_for_kafka(peers):
        peers = None
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
    starts = all_starts(peers, is_quick=arguments.quick)
    rows: list[Row] = []
    for pair in range(arguments.pairs or (1 if arguments.quick else PAIRS)):
        for start in starts[:: 1 if pair % 2 == 0 else -1]:  # what drifts on the machine favours none of them
            for row in session(start, QUICK if arguments.quick else FULL, pair):
                rows.append(row)
                print(json.dumps(row), flush=True)
    print_table(rows, [NODES], comparisons)
    return 1 if any("error" in row["figures"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
