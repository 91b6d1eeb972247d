"""Tunes a starved cluster key by key, and shows what each key does: `python -m benchmarks.tuning [STORY]`.

    keys     three nodes with the smallest values of many keys; each row sets one of them, and keeps those before
    flush    who keeps an acked record: the disk or the replicas (flush.policy, acks, log.flush.interval.*)
    nodes    one to three nodes on this machine under the same load, each partition on one of them
    memory   the memory of a node with 100 to 10,000 partitions

Prints a JSON line a row, and a table at the end. `--rows FILE` keeps the lines, `--plots DIR` draws them as SVG (extra
`plots`); with `--rows FILE --draw` nothing is measured, and the lines of FILE are drawn. docs/tuning.md has a run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tuning_load import outcome_of
from benchmarks.tuning_memory import memory_rows

Row = dict[str, Any]
MIB = 1024 * 1024
NODES = 3

STARVED: Mapping[str, object] = {
    "replica.fetch.min.bytes": 16_384,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.response.max.bytes": 16_384,
    "replica.fetch.max.bytes": 4_096,
    "replica.fetch.backoff.ms": 5_000,
    "num.replica.fetchers": 1,
    "queued.max.requests": 1,
    "replica.lag.time.max.ms": 700,
    "broker.heartbeat.interval.ms": 250,
    "broker.session.timeout.ms": 750,
    "num.io.threads": 1,
}


class Step(NamedTuple):
    """The keys that a row changes, in addition to the rows before it."""

    name: str
    config: Mapping[str, object]


KEYS = (
    Step("starved", STARVED),
    Step("replica.fetch.min.bytes = 1", {"replica.fetch.min.bytes": 1}),
    Step(
        "replica.fetch.max.bytes = 1 MiB, .response.max.bytes = 10 MiB",
        {"replica.fetch.max.bytes": MIB, "replica.fetch.response.max.bytes": 10 * MIB},
    ),
    Step("queued.max.requests = 500", {"queued.max.requests": 500}),
    Step("replica.lag.time.max.ms = 10000", {"replica.lag.time.max.ms": 10_000}),
    Step(
        "broker.session.timeout.ms = 3000, heartbeat 500",
        {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500},
    ),
    Step("replica.fetch.backoff.ms = 200", {"replica.fetch.backoff.ms": 200}),
    Step("num.io.threads = 8", {"num.io.threads": 8}),
    Step("num.replica.fetchers = 2", {"num.replica.fetchers": 2}),
)
FLUSH = (
    Step("fsync: flush.policy = fsync", {"flush.policy": "fsync"}),
    Step("os: flush.policy = os", {"flush.policy": "os"}),
    Step("os, log.flush.interval.ms = 1000", {"log.flush.interval.ms": 1_000}),
    Step("os, log.flush.interval.messages = 10000", {"log.flush.interval.messages": 10_000}),
)
STORIES: Mapping[str, tuple[Step, ...]] = {"keys": KEYS, "flush": FLUSH}


def measured(steps: tuple[Step, ...], seconds: float) -> Iterator[Row]:
    """A row for each step."""
    config: dict[str, object] = {}
    for step in steps:
        config |= step.config
        yield {"row": step.name} | asdict(outcome_of(config, NODES, seconds))


def node_rows(seconds: float) -> Iterator[Row]:
    """A row for each number of nodes, with their defaults."""
    for nodes in (1, 2, 3):
        yield {"row": f"nodes: {nodes}"} | asdict(outcome_of({}, nodes, seconds, replicas=1))


def print_table(rows: list[Row]) -> None:
    """Everything once more, for people, and for the page."""
    names = list(rows[0])
    print(f"\n| {' | '.join(name.replace('_', ' ') for name in names)} |\n|{' --- |' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(_shown(row[name]) for name in names)} |")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if value < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("story", choices=(*STORIES, "nodes", "memory"), nargs="?", default="keys")
    parser.add_argument("--seconds", type=float, default=20, help="of each phase of writing (default: 20)")
    parser.add_argument("--partitions", default="100,1000,5000,10000", help="memory: how many")
    parser.add_argument("--rows", type=Path, help="a file for the JSON lines")
    parser.add_argument("--plots", type=Path, help="a folder for SVG pictures")
    parser.add_argument("--draw", action="store_true", help="measure nothing: draw the lines of --rows")
    args = parser.parse_args()
    if args.draw:
        rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    else:
        counts = [int(count) for count in args.partitions.split(",")]
        stories: dict[str, Callable[[], Iterator[Row]]] = {
            "memory": lambda: memory_rows(counts),
            "nodes": lambda: node_rows(args.seconds),
        }
        rows = []
        for row in stories.get(args.story, lambda: measured(STORIES[args.story], args.seconds))():
            rows.append(row)
            print(json.dumps(row), flush=True)
        if args.rows is not None:
            args.rows.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print_table(rows)
    if args.plots is not None:
        from benchmarks.tuning_plots import draw

        for path in draw(args.story, rows, args.plots):
            print(path, file=sys.stderr)


if __name__ == "__main__":
    main()
