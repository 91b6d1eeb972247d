"""Measures what security costs: one work on a plain cluster, on one with ACLs, and on one with TLS, log-ins and ACLs.

    python -m benchmarks.security [--quick] [--pairs 5] [--only acls] [--peers DIR]

The clusters `plain`, `acls` and `tls` have three nodes each and run at the same time. The client of a row goes to each
in turn, and the order changes from turn to turn, so that what drifts on the machine favours none. A client is one
process: our own, or confluent-kafka at the listeners for Kafka's clients. Clients are no super users: ACLs give them
their rights, among 1,000 other ACLs. Each turn has new topics. Latency is measured at 1,000 records a second.

Each row is printed as a line of JSON. After the rows come medians; the median of the ratios to `plain` of the same
turn, with its standard error; and the goals. With `--peers` a Kafka runs afterwards in the same way, plain and with TLS
at every listener, under confluent-kafka. Not here: the clusters (`security_systems.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import broker_systems as systems
from benchmarks.security_systems import ACLS, KAFKA, KAFKA_TLS, PLAIN, TLS, Target, kafkas, ours

CLIENT_TIMEOUT_S = 180

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """One row: a client's role, and how much of it. `reads` what the role of that name has written in this turn."""

    library: str
    role: str
    reads: str = ""

    @property
    def name(self) -> str:
        return f"{self.role}, {'confluent-kafka' if self.library == 'kafka' else 'own client'}"


WORKS: Final = (
    Work("penstock", "send"),
    Work("penstock", "poll", "send"),
    Work("penstock", "poll_arrow", "send"),
    Work("penstock", "latency"),
    Work("kafka", "send"),
    Work("kafka", "poll", "send"),
    Work("kafka", "latency"),
)
GOALS: Final[Mapping[str, float]] = {TLS: 0.7, ACLS: 0.98}
"""The least part of the rate of `plain`."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one turn does."""

    records: int
    latency_records: int
    record_bytes: int = 100

    def records_of(self, role: str) -> int:
        return self.latency_records if role == "latency" else self.records


FULL, QUICK = Size(600_000, 5_000), Size(200_000, 2_000)


# -- turns -------------------------------------------------------------------------------------------------------------


def turns(targets: Sequence[Target], size: Size, pairs: int) -> Iterator[Row]:
    """All rows of clusters that run at the same time; the first turn warms them, and does not count."""
    for turn in range(pairs + 1):
        for target in targets:
            for topic in dict.fromkeys(_topic(work, turn) for work in WORKS if work.library in target.bootstraps):
                target.create_topic(topic)
        for number, work in enumerate(WORKS):
            shift = (turn + number) % len(targets)
            ordered = [*targets[shift:], *targets[:shift]]
            for target in ordered[:: 1 if turn % 2 == 0 else -1]:
                if work.library in target.bootstraps:
                    row = _run(target, work, _topic(work, turn), size)
                    if turn > 0 or "error" in row:
                        yield {"system": target.name, "turn": turn, "work": work.name, **row}


def _topic(work: Work, turn: int) -> str:
    return f"{work.reads or work.role}-{work.library}-{turn}"


def _run(target: Target, work: Work, topic: str, size: Size) -> Row:
    """One client process to its end; what it said, and the nodes' processor time."""
    records = size.records_of(work.role)
    module = f"benchmarks.broker_client_{work.library}"
    command = [sys.executable, "-m", module, work.role, target.bootstraps[work.library], topic]
    before = _cpu_s(target)
    done = subprocess.run(
        [*command, str(records), str(size.record_bytes)],
        cwd=systems.ROOT,
        env={**os.environ, **target.environment},
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-500:]}
    shown: Row = json.loads(done.stdout)
    return shown | {"nodes_cpu_us": round(1e6 * (_cpu_s(target) - before) / records, 2)}


def _cpu_s(target: Target) -> float:
    found = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in target.pids()]
    return sum(int(fields[11]) + int(fields[12]) for fields in found) / systems.TICKS_PER_SECOND


# -- the table ---------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A block for each pair of systems that were measured at the same time, and ours with TLS beside Kafka's."""
    measured = {row["system"] for row in rows}
    for one, base in ((ACLS, PLAIN), (TLS, PLAIN), (KAFKA_TLS, KAFKA), (TLS, KAFKA_TLS)):
        if not {one, base} <= measured:
            continue
        yield f"\n{f'{one} beside {base}':38} {one:>12} {base:>12} {'ratio':>22}  goal"
        for work in WORKS:
            for figure in ("p50_ms", "p99_ms") if work.role == "latency" else ("records_per_s", "nodes_cpu_us"):
                mine, theirs = (_figures(rows, system, work, figure) for system in (one, base))
                if mine and theirs:
                    yield _line(f"{work.name}, {figure}", mine, theirs, _goal(one, base, figure))


def _goal(one: str, base: str, figure: str) -> float | None:
    return GOALS.get(one) if base == PLAIN and figure == "records_per_s" else None


def _figures(rows: Sequence[Row], system: str, work: Work, figure: str) -> dict[int, float]:
    """The figure of each turn."""
    return {
        row["turn"]: row[figure]
        for row in rows
        if (row["system"], row["work"]) == (system, work.name) and figure in row
    }


def _line(title: str, mine: Mapping[int, float], theirs: Mapping[int, float], goal: float | None) -> str:
    ratios = [mine[turn] / theirs[turn] for turn in mine.keys() & theirs.keys() if mine[turn] and theirs[turn]]
    middle = statistics.median(ratios) if ratios else math.nan
    # Of a ratio the logarithm is what spreads evenly: half of it and its double are equally far from one.
    error = statistics.stdev(map(math.log, ratios)) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    verdict = "" if goal is None else f"≥ {goal:g}× {'met' if middle >= goal else 'MISSED'}"
    if goal is not None and abs(math.log(middle / goal)) < 2 * error:
        verdict += ", within the noise"
    one, other = (statistics.median(found.values()) for found in (mine, theirs))
    return f"{title:38} {one:12,.2f} {other:12,.2f} {f'{middle:.3f} ±{error:.3f}':>22}  {verdict}".rstrip()


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.security", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two turns, shorter: under 5 minutes with Kafka")
    parser.add_argument("--pairs", type=int, help="turns that count; 5 without --quick")
    parser.add_argument("--only", nargs="+", choices=(ACLS, TLS), default=(ACLS, TLS), help="beside plain")
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it ours alone")
    parser.add_argument("--kafka-fsync", action="store_true", help="Kafka flushes before it acks, as Penstock does")
    arguments = parser.parse_args()
    peers: Path | None = arguments.peers.absolute() if arguments.peers is not None else None
    if missing := systems.missing_for_kafka(peers):
        peers = None
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
    size, pairs = (QUICK, 2) if arguments.quick else (FULL, 5)
    rows: list[Row] = []

    def measure(*made: Any) -> None:
        with ExitStack() as stack:
            targets = [stack.enter_context(each) for each in made]
            for row in turns(targets, size, arguments.pairs or pairs):
                rows.append(row)
                print(json.dumps(row), flush=True)

    measure(*(ours(name) for name in (PLAIN, *arguments.only)))
    if peers is not None:
        measure(*(kafkas(peers, name, fsync=arguments.kafka_fsync) for name in (KAFKA, KAFKA_TLS)))
    for text in table(rows):
        print(text)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
