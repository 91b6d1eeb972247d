"""Restarts three nodes with many partitions, one after the other, under acks=all: python -m tests.growth.rolling.

Prints one JSON line: how long the topic took to be made, what an idle node takes of a core, how long each round of
restarts took, how long acks took meanwhile, and then how long a kill (-9) of each node stopped the writes. Exit code 1
when a write failed, or a replica did not come back.
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
IDLE_S = 20.0
TIMEOUT_S = 600.0


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
    time.sleep(5)
    before = [_cpu_s(cluster.pid(node)) for node in range(NODES)]
    time.sleep(IDLE_S)
    busy = [(_cpu_s(cluster.pid(node)) - cpu) / IDLE_S for node, cpu in enumerate(before)]
    figures["idle_share_of_a_core"] = [round(share, 3) for share in busy]
    figures["rss_mib"] = [_rss_mib(cluster.pid(node)) for node in range(NODES)]
    with PacedProducer(cluster.bootstrap, TOPIC, min(partitions, WRITTEN_MAX)) as paced:
        time.sleep(10)
        paced.phase("restarts")
        rounds = []
        for number in range(times):
            began = time.monotonic()
            for node in range(NODES):
                cluster.restart(node)
                cluster.wait_in_sync(timeout_s=TIMEOUT_S)
            rounds.append(round(time.monotonic() - began, 1))
            say(f"round {number + 1}: {rounds[-1]} s")
        for node in range(NODES):
            paced.phase(f"kill of {'the controller' if node == cluster.controller() else 'a broker'} {node}")
            cluster.kill(node)
            time.sleep(10)
            cluster.start(node)
            cluster.wait_in_sync(timeout_s=TIMEOUT_S)
            say(f"node {node} was killed and is back")
    figures["rounds_s"] = rounds
    figures["acks"] = paced.quantiles()
    return Outcome(figures, paced.failed)


def _cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    sys.exit(main())
