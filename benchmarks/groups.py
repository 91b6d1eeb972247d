"""Consumer groups beside a real Kafka: how long they take to be stable, what commits and groups cost, and a failover.

    python -m benchmarks.groups [--quick] [--pairs 3] [--peers DIR]

One client of Kafka's protocol (groups_wire.py, groups_members.py) drives three nodes of each system in turn, in pairs,
as in benchmarks/broker.py: a JSON line a row, then medians, ratios and goals. Rows of both protocols: 3, 30 and 300
members join, one of 30 leaves, one dies (by its session's end, 6 s). Then commits a second by members of 32 groups, and
for 1,000 and 10,000 groups: memory, and how long they cannot be asked for their offsets when the node that coordinates
most of them is stopped in order (what counts then is loading) or killed (-9: what counts then is its session).
`load_s` is the time in which all groups of that node came back, after the first sign of the next coordinator.
Memory is what the nodes' resident memory grew by, fitted over five steps; of a JVM, garbage is part of that, so the
heap after a collection stands beside it (`heap`). `wrong` counts groups that came back with other offsets.
On both: no delay of the first rebalance, sessions of 6 s; members beat as often as this client likes.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks.broker_goals import Comparison, print_table
from benchmarks.groups_many import NODES, failovers, make_groups, memory
from benchmarks.groups_rows import PROTOCOLS, TOPIC, TOPIC_PARTITIONS, commits, rebalances

CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.consumer.session.timeout.ms": 6_000}
KAFKA_CONFIG = CONFIG | {"group.consumer.min.session.timeout.ms": 6_000}
PAIRS = 3
WARM_FROM = 1_000_000
"""The number of the first group that counts for nothing."""

Row = dict[str, Any]
Start = Callable[[], AbstractContextManager[systems.System]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    members: tuple[int, ...]
    groups: tuple[int, ...]
    commit_s: float
    steps: int
    """Points of the fit of memory, beside the first."""


ENDS: dict[int, tuple[str, ...]] = {3: ("leave",), 30: ("leave", "die"), 300: ()}
"""The ends of members that a group of so many sees after they have joined."""
FULL = Size(members=(3, 30, 300), groups=(1_000, 10_000), commit_s=10.0, steps=5)
QUICK = Size(members=(3, 30, 300), groups=(1_000,), commit_s=4.0, steps=2)


def session(start: Start, size: Size, pair: int) -> Iterator[Row]:
    """Every row of one fresh cluster. The first work of each kind warms it, and does not count."""
    with start() as system:
        address = system.kafka_bootstrap.split(",")[0]
        base: Row = {"system": system.name, "nodes": NODES, "pair": pair}
        system.create_topic(TOPIC, TOPIC_PARTITIONS)
        asyncio.run(make_groups(address, WARM_FROM, WARM_FROM + 200))
        yield base | memory(system, size.groups[0], size.steps)  # BEFORE others leave memory behind that is free
        for protocol in PROTOCOLS:
            asyncio.run(rebalances(address, protocol, size.members[1], ("leave",), 0))
        for members in size.members:
            for protocol in PROTOCOLS:
                figures = asyncio.run(rebalances(address, protocol, members, ENDS[members], 1))
                yield base | {"row": "figures", "what": f"{members} members", "figures": figures}
        asyncio.run(commits(address, size.commit_s / 2, 0))
        cpu = systems.cpu_seconds(system)
        measured = asyncio.run(commits(address, size.commit_s, 1))
        if "commits" in measured:
            measured["commit-cpu"] = 1e6 * (systems.cpu_seconds(system) - cpu) / (measured["commits"] * size.commit_s)
        yield base | {"row": "figures", "what": "commits", "figures": measured}
        made = size.groups[0]
        for groups in size.groups:
            asyncio.run(make_groups(address, made, groups))
            made = groups
            yield from (base | row for row in failovers(system, groups))


def comparisons(peer: str, nodes: int) -> list[Comparison]:
    """Every line of the table beside one peer; all goals are: no worse."""
    lines = []
    for members in FULL.members:
        for how in ("join", *ENDS[members]):
            for protocol in PROTOCOLS:
                name = f"{how}-{protocol}-{members}"
                goal = 1.0 if how != "die" else 1.1  # a session's end is part of it
                lines.append(Comparison(f"{how}, {members} members, {protocol}, s", name, name, at_most=goal))
    lines.append(Comparison("commits/s", "commits", "commits", at_least=1.0))
    lines.append(Comparison("  processor time a commit, µs", "commit-cpu", "commit-cpu"))
    for what in ("group", "member"):
        lines.append(Comparison(f"memory a {what}, bytes", f"bytes-{what}", f"bytes-{what}", at_most=1.0))
        lines.append(Comparison("  of a JVM its heap", f"bytes-{what}", f"heap-{what}"))
    for groups in FULL.groups:
        for how in ("stop", "kill"):
            lines += [
                Comparison(f"{how}, {groups} groups, p50 s", f"{how}-{groups}-p50", f"{how}-{groups}-p50", at_most=1.0),
                Comparison("  until the last one is back", f"{how}-{groups}-last", f"{how}-{groups}-last", at_most=1.0),
            ]
        lines.append(Comparison(f"groups loaded/s of {groups}", f"load-{groups}", f"load-{groups}", at_least=1.0))
    return lines


def all_starts(peers: Path | None, *, is_quick: bool) -> list[Start]:
    """The systems of one turn, in order."""
    starts: list[Start] = [functools.partial(systems.penstock, NODES, config=CONFIG)]
    if peers is not None:
        starts.append(functools.partial(systems.kafka, peers, NODES, config=KAFKA_CONFIG))
        if not is_quick:
            starts.append(functools.partial(systems.kafka, peers, NODES, fsync=True, config=KAFKA_CONFIG))
    return starts


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pair, 1,000 groups, Kafka without fsync: 4 minutes")
    parser.add_argument("--pairs", type=int, help=f"turns of each system; {PAIRS} without --quick")
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it ours alone")
    parser.add_argument("--only", choices=("ours", "peers"), help="one side, for whoever works on this program")
    arguments = parser.parse_args()
    peers: Path | None = arguments.peers.absolute() if arguments.peers is not None else None
    if missing := systems.missing_for_kafka(peers):
        peers = None
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
    starts = all_starts(peers if arguments.only != "ours" else None, is_quick=arguments.quick)
    starts = starts[1:] if arguments.only == "peers" else starts
    rows: list[Row] = []
    for pair in range(arguments.pairs or (1 if arguments.quick else PAIRS)):
        for start in starts[:: 1 if pair % 2 == 0 else -1]:  # what drifts on the machine favours none of them
            for row in session(start, QUICK if arguments.quick else FULL, pair):
                rows.append(row)
                print(json.dumps(row), flush=True)
    print_table(rows, [NODES], comparisons)
    return 1 if any("error" in row or "error" in row["figures"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
