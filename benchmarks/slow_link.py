"""Several batches in flight on a slow link: `python -m benchmarks.slow_link [--delay-ms 20] [--pairs 5] [--rows WORD]`.

One node and one partition behind a proxy (slow_link_proxy.py) that delivers every byte so many ms late, in both
directions. Producers with the default of five requests in flight take turns with producers that have one. Prints a JSON
line a turn, then one a row with the median of the ratios of the pairs. Exit code 1 when a row with a goal is below 3.

- `throughput`: records of 100 B as fast as they go, with batch_size=16384, which is Kafka's default.
- `latency at a rate`: 1,000 records of 1 KiB a second in such batches, more than one in flight can carry.
- `full batches`: as fast as they go in batches of our default size. No goal: a message above 64 KiB needs a round trip
  for itself, because a stream that is not read may not take more of a node's memory (ADR 0010).
- `single records`: 1,000 of 100 B a second with the default options. No goal: one in flight only makes batches larger.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Admin
from penstock.testing import Cluster

ROOT = Path(__file__).resolve().parent.parent
GOAL = 3.0
ONE = {"max_in_flight_requests_per_connection": 1}
SMALL = {"batch_size": 16_384}
CLIENT_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Work:
    """One row: what a client process does, and which of its figures counts."""

    name: str
    role: str
    records: int
    value_bytes: int
    options: dict[str, Any]
    figure: str
    more_is_better: bool
    goal: float | None = GOAL

    def ratio(self, several: float, one: float) -> float:
        """How many times better several in flight are."""
        return several / one if self.more_is_better else one / several


WORKS = (
    Work("throughput", "send", 80_000, 100, SMALL, "records_per_s", True),
    Work("latency at a rate", "latency", 10_000, 1_024, SMALL, "p50_ms", False),
    Work("full batches", "send", 1_000_000, 100, {}, "records_per_s", True, goal=None),
    Work("single records", "latency", 10_000, 100, {}, "p50_ms", False, goal=None),
)


@contextmanager
def delayed_node(delay_ms: float) -> Iterator[str]:
    """A node that clients reach through the proxy alone; yields the proxy's host:port."""
    command = [sys.executable, "-m", "benchmarks.slow_link_proxy", str(delay_ms)]
    proxy = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = proxy.stdout.readline().strip() if proxy.stdout is not None else ""
        with Cluster(1, {"advertised.listeners": [f"BROKER://{address}"]}, defaults={}) as cluster:
            if proxy.stdin is not None:
                proxy.stdin.write(cluster.endpoint(0) + "\n")
                proxy.stdin.flush()
            yield address
    finally:
        proxy.communicate()


def turn(address: str, work: Work, topic: str, *, several: bool) -> dict[str, Any]:
    """The figures that one client process prints."""
    with Admin(address) as admin:
        admin.create_topic(topic, 1, 1)
    options = json.dumps(work.options if several else work.options | ONE)
    arguments = [work.role, address, topic, str(work.records), str(work.value_bytes), options]
    command = [sys.executable, "-m", "benchmarks.broker_client_penstock", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=CLIENT_TIMEOUT_S)
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def row(address: str, work: Work, pairs: int) -> dict[str, Any]:
    """The medians of both, and of the ratios of the pairs."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for several in (True, False) if pair % 2 == 0 else (False, True):
            topic = f"{work.name}-{pair}-{several}".replace(" ", "-")
            measured = turn(address, work, topic, several=several)
            print(
                json.dumps({"row": work.name, "pair": pair, "in_flight": 5 if several else 1, **measured}), flush=True
            )
            found[several].append(measured[work.figure])
    ratios = [work.ratio(five, one) for five, one in zip(found[True], found[False], strict=True)]
    return {
        "row": work.name,
        "figure": work.figure,
        "five": statistics.median(found[True]),
        "one": statistics.median(found[False]),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in sorted(ratios)],
        "goal": work.goal,
    }


def main() -> int:
    """Exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=20, help="of each byte, in each direction")
    parser.add_argument("--pairs", type=int, default=5, help="turns of each")
    parser.add_argument("--rows", default="", help="words with which the wanted rows begin, with commas")
    options = parser.parse_args()
    wanted = tuple(options.rows.split(","))
    missed = 0
    with delayed_node(options.delay_ms) as address:
        for work in WORKS:
            if work.name.startswith(wanted):
                found = row(address, work, options.pairs)
                print(json.dumps(found), flush=True)
                missed += work.goal is not None and found["ratio"] < work.goal
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
