"""This system beside a real Kafka, or beside an earlier checkout of itself: what one Python process gets, and the cost.

    python -m benchmarks.broker [--quick] [--nodes 1,3] [--pairs 5] [--peers DIR] [--before TREE] [--not-idempotent]
    python -m benchmarks.broker --door kafka --peers DIR [--quick] [--nodes 1,3] [--pairs 5]

One JSON line a row, then a table: medians with their spread, the ratio of each pair, and goals. The systems take turns
(ours, Kafka, Kafka with fsync, ours, …), each time as a fresh cluster, and never do two of them run at once. Every
system is warmed by the same work before anything counts. Each client is a process of its own. Ours acks after an fsync
on every in-sync replica; plain Kafka acks from the page cache, `kafka-fsync` does what ours does. What was set on each
system and its clients is the row `settings`. Without Kafka's tools our rows stand alone, and a line says what is
missing. `--before` names a checkout with its own environment (.venv). Its cluster lives beside ours and the two take
turns row by row: an idle one takes 4 % of a core, while from minute to minute the same work varies by a third. So does
`--not-idempotent`: the same work with producers that write a record twice if they must; then nothing is read.
With `--door kafka` one C client drives all of them by Kafka's protocol (broker_flood.py).
Absolute figures do not hold from machine to machine; ratios of one run do.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks import broker_flood as flood
from benchmarks import broker_systems as systems
from benchmarks.broker_goals import goals_at_three, print_table

MIB = 1024 * 1024
SETTLE_S = 2.0
"""After a start, before the idle share is measured."""
CLIENT_TIMEOUT_S = 300
OURS = (("send", "send_many"), ("poll", "poll_arrow"))
THEIRS = (("send",), ("poll",))
PRODUCERS = (("send", "send_keyed", "send_many"), ())
"""The ways to produce that are run on both systems with --not-idempotent."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done. Records are multiples of what the clients send at once."""

    records: dict[int, int]
    latency_records: int
    idle_s: float


FULL = Size(records={100: 1_000_000, 1024: 200_000}, latency_records=5_000, idle_s=10.0)
QUICK = Size(records={100: 400_000, 1024: 100_000}, latency_records=3_000, idle_s=4.0)
PAIRS = 5
READS = LATENCIES = 3
"""So often a row of reading, or of latency, is measured in each pair, the systems in turn; the median counts. One read
may be over in 0.2 s, and two of one system differ by a fifth."""
LATENCY_PASSES_MAX = 6
STILL_WARMING = 0.7
"""A pass whose median is below this part of the one before shows a system that is still getting warm, and does not
count: a JVM needs many seconds to hold this rate, and its first ones would be no fair comparison."""

Start = Callable[[], AbstractContextManager[systems.System]]
Roles = tuple[tuple[str, ...], tuple[str, ...]]
Row = dict[str, Any]
RowsOf = Callable[[Start, int, int], Iterator[Row]]
"""The rows of one fresh cluster: how it starts, its nodes, and the turn."""


def session(start: Start, nodes: int, size: Size, pair: int, ours: Roles = OURS) -> Iterator[Row]:
    """Every row of one fresh cluster."""
    with start() as system:
        base: Row = {"system": system.name, "nodes": nodes, "pair": pair}
        yield base | {"row": "start", "ready_s": round(system.ready_seconds, 3), "rss_mib": _rss_mib(system)}
        if pair == 0:
            yield base | {"row": "settings", **system.settings}
            yield base | {"row": "idle", "idle_share": _idle_share(system, size.idle_s)}
        produce, consume = THEIRS if system.name.startswith("kafka") else ours
        _warm_up(system, produce, consume, size)
        for value_bytes, records in size.records.items():
            topic = ""
            for how in produce:
                topic = f"t-{value_bytes}-{how}"
                system.create_topic(topic)
                yield base | _measured(system, "produce", how, topic, records, value_bytes)
            for how in consume * READS:
                yield base | _measured(system, "consume", how, topic, records, value_bytes)
        yield from (base | row for row in _latencies(system, size))
        yield base | {"row": "after", "rss_mib": _rss_mib(system)}


def _warm_up(system: systems.System, produce: tuple[str, ...], consume: tuple[str, ...], size: Size) -> None:
    """One whole pass of each role, of which nothing counts: a JVM compiles, caches fill."""
    system.create_topic("warm-up")
    for role in (produce[-1], *consume):
        _client(system, role, "warm-up", size.records[100], 100)


def _measured(system: systems.System, row: str, how: str, topic: str, records: int, value_bytes: int) -> Row:
    cpu = systems.cpu_seconds(system)
    measured = _client(system, how, topic, records, value_bytes)
    return {
        "row": row,
        "how": how,
        "bytes": value_bytes,
        **measured,
        "nodes_cpu_s": round(systems.cpu_seconds(system) - cpu, 2),
    }


def _latencies(system: systems.System, size: Size) -> Iterator[Row]:
    """Passes until one is not much faster than the one before; that one counts, and the ones behind it."""
    system.create_topic("latency")
    before, counted = 0.0, 0
    for number in range(1, LATENCY_PASSES_MAX + LATENCIES):
        cpu = systems.cpu_seconds(system)
        measured = _client(system, "latency", "latency", size.latency_records, 100)
        measured["nodes_cpu_s"] = round(systems.cpu_seconds(system) - cpu, 2)
        median = measured.get("p50_ms") or 0.0
        is_warm = number >= LATENCY_PASSES_MAX or 0 < STILL_WARMING * before <= median or "error" in measured
        counted += is_warm or counted > 0
        yield {"row": "latency" if counted else "latency-warm-up", "bytes": 100, **measured}
        if counted == LATENCIES:
            return
        before = median


def _client(system: systems.System, role: str, topic: str, records: int, value_bytes: int) -> Row:
    """One client process to its end; what it said, or its error."""
    command, folder = system.client(role, system.bootstrap, topic, str(records), str(value_bytes))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-500:]}
    shown: Row = json.loads(done.stdout)
    if "records_per_s" in shown and shown["records"] != records:
        return {"error": f"{shown['records']} of {records} records"}
    return shown


def _idle_share(system: systems.System, idle_s: float) -> float:
    time.sleep(SETTLE_S)
    cpu, began = systems.cpu_seconds(system), time.monotonic()
    time.sleep(idle_s)
    return round((systems.cpu_seconds(system) - cpu) / (time.monotonic() - began), 4)


def _rss_mib(system: systems.System) -> int:
    return systems.rss_bytes(system) // MIB


def all_starts(count: int, peers: Path | None, before: Path | None, not_idempotent: bool) -> list[list[Start]]:
    """The systems of one turn, in order; those of one list live beside each other."""
    ours: list[Start] = [functools.partial(systems.penstock, count)]
    if not_idempotent:
        options = {"enable_idempotence": False}
        ours.append(functools.partial(systems.penstock, count, name=systems.NOT_IDEMPOTENT, options=options))
    if before is not None:
        ours.append(functools.partial(systems.penstock, count, name="before", tree=before))
    if peers is None:
        return [ours]
    return [
        ours,
        [functools.partial(systems.kafka, peers, count)],
        [functools.partial(systems.kafka, peers, count, fsync=True)],
    ]


def all_rows(
    nodes: list[int], pairs: int, starts_of: Callable[[int], list[list[Start]]], rows_of: RowsOf
) -> Iterator[Row]:
    """Every row, as it is measured."""
    for count in nodes:
        starts = starts_of(count)
        for pair in range(pairs):
            # Every other turn goes backwards: whatever drifts on the machine does not favour one of them.
            way = 1 if pair % 2 == 0 else -1
            for together in starts[::way]:
                yield from row_by_row([rows_of(start, count, pair) for start in together[::way]])


def row_by_row(sessions: Sequence[Iterator[Row]]) -> Iterator[Row]:
    """One row of each, then the next of each, until all have ended."""
    for rows in zip_longest(*sessions):
        yield from (row for row in rows if row is not None)


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pair and fewer records: about six minutes")
    parser.add_argument("--nodes", default="1,3", help="1, 3 or, as without it, 1,3")
    parser.add_argument("--pairs", type=int, help=f"turns of each system; {PAIRS} without --quick")
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it ours alone")
    parser.add_argument("--before", type=Path, help="a checkout of another version, with its own .venv")
    parser.add_argument("--not-idempotent", action="store_true", help="beside producers without idempotence, alone")
    parser.add_argument(
        "--door", choices=("grpc", "kafka"), default="grpc", help="kafka: a C client by Kafka's protocol"
    )
    arguments = parser.parse_args()
    if arguments.not_idempotent and (arguments.peers or arguments.before):
        parser.error("--not-idempotent compares two kinds of producers, and needs neither --peers nor --before")
    if arguments.door == "kafka" and (not arguments.peers or arguments.before or arguments.not_idempotent):
        parser.error("--door kafka needs --peers, whose flood.c is the client, and compares with nothing else")
    peers: Path | None = arguments.peers.absolute() if arguments.peers is not None else None
    before: Path | None = arguments.before.absolute() if arguments.before is not None else None
    missing = systems.missing_for_kafka(peers)
    if arguments.door == "kafka" and (missing := missing + flood.missing_for_flood(peers)):
        print(f"the C client needs Kafka's tools and librdkafka; missing: {', '.join(missing)}", file=sys.stderr)
        return 1
    if missing and not arguments.not_idempotent:
        peers = None
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
    nodes = [int(count) for count in arguments.nodes.split(",")]
    pairs = arguments.pairs or (1 if arguments.quick else PAIRS)
    rows: list[Row] = []
    ours = PRODUCERS if arguments.not_idempotent else OURS
    size = QUICK if arguments.quick else FULL

    def rows_of(start: Start, count: int, pair: int) -> Iterator[Row]:
        if peers is not None and arguments.door == "kafka":
            flood_size = flood.QUICK if arguments.quick else flood.FULL
            return flood.flood_session(start, count, flood_size, pair, peers)
        return session(start, count, size, pair, ours)

    starts_of = functools.partial(all_starts, peers=peers, before=before, not_idempotent=arguments.not_idempotent)
    for row in all_rows(nodes, pairs, starts_of, rows_of):
        rows.append(row)
        print(json.dumps(row), flush=True)
    print_table(rows, nodes, flood.flood_comparisons if arguments.door == "kafka" else goals_at_three)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
