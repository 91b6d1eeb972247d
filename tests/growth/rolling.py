"""Restarts three nodes with many partitions, one after the other, under acks=all: python -m tests.growth.rolling.

Prints one JSON line: how long the topic took to be made, what an idle node takes of a core, how long each round of
restarts took, how long acks took meanwhile, and then how long a kill (-9) of each node stopped the writes. Beside that
stand the time of each clean stop and of each start, open files and memory, and how often a controller became active and
fenced a broker. Exit code 1 when a write failed, a stop was not clean, or a replica did not come back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock import Admin
from penstock.testing import Cluster
from tests.growth.latency import PacedProducer
from tests.support.campaign_directory import in_directory

NODES = 3
TOPIC = "many"
WRITTEN_MAX = 200
"""Partitions that the producer writes to, one after the other."""
SETTLE_S, SETTLE_S_MAX, SETTLED_SHARE = 5.0, 180.0, 0.02
"""Two looks at the idle nodes of so many seconds that differ by less than a share of a core: the new logs have been
flushed for the first time."""
IDLE_S = 20.0
TIMEOUT_S = 600.0
TOLD = {
    "elections_of_a_controller": "INFO broker.quorum.controller_driver: active controller",
    "fencings": ": fencing brokers ",
}
"""The words in a node's log by which each is counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    figures: dict[str, object]
    failed: list[str]

    @property
    def ok(self) -> bool:
        return not self.failed


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="python -m tests.growth.rolling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--times", type=int, default=5, help="rounds of restarts")
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(directory: Path) -> Outcome:
        with Cluster(NODES, directory=directory / "cluster", start_timeout_s=TIMEOUT_S, defaults={}) as cluster:
            return _run(cluster, arguments.partitions, arguments.times, say)

    outcome = in_directory("rolling", say, begin)
    print(json.dumps({"ok": outcome.ok, **outcome.figures, "failed": outcome.failed[:10]}))
    return 0 if outcome.ok else 1


def _run(cluster: Cluster, partitions: int, times: int, say: Callable[[str], None]) -> Outcome:
    figures: dict[str, object] = {"partitions": partitions}
    with Admin(cluster.bootstrap, default_api_timeout_ms=int(TIMEOUT_S * 1000)) as admin:
        began = time.monotonic()
        admin.create_topic(TOPIC, partitions, NODES, {"min.insync.replicas": 2})
        figures["create_s"] = round(time.monotonic() - began, 2)
        cluster.wait_in_sync(timeout_s=TIMEOUT_S)
        figures["in_sync_s"] = round(time.monotonic() - began, 2)
    say(str(figures))
    figures["settled_s"] = _settle(cluster)
    figures["idle_share_of_a_core"] = [round(share, 3) for share in _busy(cluster, IDLE_S)]
    figures["at_first"] = _nodes(cluster)
    stops: list[float] = []
    starts: list[float] = []
    unclean: list[str] = []
    with PacedProducer(cluster.bootstrap, TOPIC, min(partitions, WRITTEN_MAX)) as paced:
        time.sleep(10)
        paced.phase("restarts")
        rounds = []
        for number in range(times):
            began = time.monotonic()
            for node in range(NODES):
                asked = time.monotonic()
                code = cluster.stop(node, TIMEOUT_S)
                stops.append(round(time.monotonic() - asked, 1))
                unclean += [f"node {node} stopped with exit code {code}"] if code else []
                asked = time.monotonic()
                cluster.start(node)
                starts.append(round(time.monotonic() - asked, 1))
                cluster.wait_in_sync(timeout_s=TIMEOUT_S)
                say(f"node {node}: stopped in {stops[-1]} s, started in {starts[-1]} s")
            rounds.append(round(time.monotonic() - began, 1))
            say(f"round {number + 1}: {rounds[-1]} s")
        for node in range(NODES):
            paced.phase(f"kill of {'the controller' if node == cluster.controller() else 'a broker'} {node}")
            cluster.kill(node)
            time.sleep(10)
            cluster.start(node)
            cluster.wait_in_sync(timeout_s=TIMEOUT_S)
            say(f"node {node} was killed and is back")
    figures |= {"rounds_s": rounds, "stops_s": stops, "starts_s": starts, "at_last": _nodes(cluster)}
    figures |= {name: _count(cluster, text) for name, text in TOLD.items()}
    figures["acks"] = paced.quantiles()
    return Outcome(figures, unclean + paced.failed)


def _settle(cluster: Cluster) -> float:
    """Seconds until the idle nodes take the same share as before."""
    began, before = time.monotonic(), float("inf")
    while time.monotonic() - began < SETTLE_S_MAX:
        share = sum(_busy(cluster, SETTLE_S))
        if abs(before - share) < SETTLED_SHARE:
            break
        before = share
    return round(time.monotonic() - began, 1)


def _busy(cluster: Cluster, seconds: float) -> list[float]:
    """The share of a core that each node takes."""
    before = [_cpu_s(cluster.pid(node)) for node in range(NODES)]
    time.sleep(seconds)
    return [(_cpu_s(cluster.pid(node)) - cpu) / seconds for node, cpu in enumerate(before)]


def _nodes(cluster: Cluster) -> dict[str, list[int]]:
    """Resident memory and open descriptors of each node."""
    pids = [cluster.pid(node) for node in range(NODES)]
    open_files = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
    return {"rss_mib": [_rss_mib(pid) for pid in pids], "open_files": open_files}


def _count(cluster: Cluster, text: str) -> int:
    """How often the nodes' logs say it."""
    return sum(cluster.log_path(node).read_text(errors="replace").count(text) for node in range(NODES))


def _cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    sys.exit(main())
