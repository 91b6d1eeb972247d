"""This system beside a real Kafka, in one run: what one Python process gets from 1 and 3 nodes, and what they cost.

    python -m benchmarks.broker [--quick] [--nodes 1,3] [--peers ../shared/peers]

One JSON line a row, then a table with ratios and goals. Rounds are interleaved (ours, Kafka, ours, Kafka), medians
taken, and never do two clusters run at once. Each client is a process of its own: broker_client_penstock.py,
broker_client_kafka.py. Ours acks after an fsync on every in-sync replica; Kafka plain acks from the page cache, Kafka
fsync does what ours does (latency only). Without Kafka's tools our rows stand alone, and a line says what is missing.
Absolute figures do not hold from machine to machine; ratios of one run do.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks.broker_goals import print_table

ROOT = Path(__file__).resolve().parent.parent
PEERS_DEFAULT = ROOT.parent / "shared" / "peers"
MIB = 1024 * 1024
SETTLE_S = 2.0
"""After a start, before the idle share is measured."""
CLIENT_TIMEOUT_S = 300
HOW = {
    "penstock": (("send", "send_many"), ("poll", "poll_arrow")),
    "kafka": (("send",), ("poll",)),
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done. Records are multiples of what the clients send at once."""

    rounds: int
    records: dict[int, int]
    latency_records: int
    idle_s: float
    fsync_nodes: tuple[int, ...]


FULL = Size(rounds=2, records={100: 1_000_000, 1024: 200_000}, latency_records=5_000, idle_s=10.0, fsync_nodes=(1, 3))
QUICK = Size(rounds=1, records={100: 400_000, 1024: 100_000}, latency_records=3_000, idle_s=4.0, fsync_nodes=(3,))
LATENCY_PASSES_MAX = 6
STILL_WARMING = 0.7
"""A pass whose median is below this part of the one before shows a system that is still getting warm, and does not
count: a JVM needs many seconds to hold this rate, and its first ones would be no fair comparison."""

Start = Callable[[], AbstractContextManager[systems.System]]
Row = dict[str, Any]


def session(start: Start, nodes: int, size: Size, round_number: int) -> Iterator[Row]:
    """Every row of one fresh cluster. The first load is thrown away: it warms a JVM, and our caches."""
    with start() as system:
        base: Row = {"system": system.name, "nodes": nodes, "round": round_number}
        yield base | {"row": "start", "ready_s": round(system.ready_seconds, 3), "rss_mib": _rss_mib(system)}
        if round_number == 0:
            yield base | {"row": "idle", "idle_share": _idle_share(system, size.idle_s)}
        produce, consume = HOW[system.name]
        system.create_topic("warm-up")
        _client(system, produce[-1], "warm-up", size.records[100] // 5, 100)
        for value_bytes, records in size.records.items():
            topic = ""
            for how in produce:
                topic = f"t-{value_bytes}-{how}"
                system.create_topic(topic)
                yield base | _measured(system, "produce", how, topic, records, value_bytes)
            for how in consume:
                yield base | _measured(system, "consume", how, topic, records, value_bytes)
        yield from (base | row for row in _latencies(system, size))
        yield base | {"row": "after", "rss_mib": _rss_mib(system)}


def latency_session(start: Start, nodes: int, size: Size) -> Iterator[Row]:
    """Only the latency row, after a warm-up."""
    with start() as system:
        system.create_topic("warm-up")
        _client(system, "send", "warm-up", size.records[1024] // 5, 100)
        base: Row = {"system": system.name, "nodes": nodes, "round": 0}
        yield from (base | row for row in _latencies(system, size))


def _measured(system: systems.System, row: str, how: str, topic: str, records: int, value_bytes: int) -> Row:
    cpu = systems.cpu_seconds(system)
    told = _client(system, how, topic, records, value_bytes)
    return {
        "row": row,
        "how": how,
        "bytes": value_bytes,
        **told,
        "nodes_cpu_s": round(systems.cpu_seconds(system) - cpu, 2),
    }


def _latencies(system: systems.System, size: Size) -> Iterator[Row]:
    """Passes until one is not much faster than the one before; that one counts."""
    system.create_topic("latency")
    before = 0.0
    for number in range(1, LATENCY_PASSES_MAX + 1):
        cpu = systems.cpu_seconds(system)
        told = _client(system, "latency", "latency", size.latency_records, 100)
        told["nodes_cpu_s"] = round(systems.cpu_seconds(system) - cpu, 2)
        median = told.get("p50_ms") or 0.0
        counts = number == LATENCY_PASSES_MAX or 0 < STILL_WARMING * before <= median or "error" in told
        yield {"row": "latency" if counts else "latency-warm-up", "bytes": 100, **told}
        if counts:
            return
        before = median


def _client(system: systems.System, role: str, topic: str, records: int, value_bytes: int) -> Row:
    """One client process to its end; what it said, or its error."""
    command = [
        sys.executable,
        "-m",
        system.client_module,
        role,
        system.bootstrap,
        topic,
        str(records),
        str(value_bytes),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-500:]}
    told: Row = json.loads(done.stdout)
    if "records_per_s" in told and told["records"] != records:
        return {"error": f"{told['records']} of {records} records"}
    return told


def _idle_share(system: systems.System, idle_s: float) -> float:
    time.sleep(SETTLE_S)
    cpu, began = systems.cpu_seconds(system), time.monotonic()
    time.sleep(idle_s)
    return round((systems.cpu_seconds(system) - cpu) / (time.monotonic() - began), 4)


def _rss_mib(system: systems.System) -> int:
    return systems.rss_bytes(system) // MIB


def all_rows(nodes: list[int], size: Size, peers: Path | None) -> Iterator[Row]:
    """Every row, as it is measured."""
    for count in nodes:
        starts: list[Start] = [functools.partial(systems.penstock, count)]
        if peers is not None:
            starts.append(functools.partial(systems.kafka, peers, count))
        for round_number in range(size.rounds):
            for start in starts:
                yield from session(start, count, size, round_number)
        if peers is not None and count in size.fsync_nodes:
            yield from latency_session(functools.partial(systems.kafka, peers, count, fsync=True), count, size)


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round and fewer records: below three minutes")
    parser.add_argument("--nodes", default="1,3", help="1, 3 or both")
    parser.add_argument("--peers", type=Path, default=PEERS_DEFAULT, help="the folder of peers.py; 'none': ours alone")
    arguments = parser.parse_args()
    peers: Path | None = arguments.peers.absolute()
    missing = systems.missing_for_kafka(arguments.peers)
    if missing:
        peers = None
        print(f"no Kafka here, our rows alone; missing: {', '.join(missing)}", file=sys.stderr)
    nodes = [int(count) for count in arguments.nodes.split(",")]
    rows: list[Row] = []
    for row in all_rows(nodes, QUICK if arguments.quick else FULL, peers):
        rows.append(row)
        print(json.dumps(row), flush=True)
    print_table(rows, nodes)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
