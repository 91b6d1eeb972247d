"""Restarts three nodes with many partitions, one after the other, under acks=all: python -m tests.growth.rolling.

Tells how long the topic took to be made, what an idle node takes of a core, how long each round of
restarts took, how long acks took meanwhile, and then how long a kill (-9) of each node stopped the writes. Beside that
stand the time of each clean stop and of each start, open files and memory, and how often a controller became active and
fenced a broker. It is wrong when a write failed, a stop was not clean, or a replica did not come back.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from penstock import Admin
from penstock.testing import Cluster
from tests.growth.latency import PacedProducer
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.measures import cpu_s, rss_mib
from tests.support.campaign.options import option

NODES = 3
TOPIC = "many"
WRITTEN_MAX = 200
"""Partitions that the producer writes to, one after the other."""
SETTLE_S, SETTLE_S_MAX, SETTLED_SHARE = 5.0, 180.0, 0.02
"""Two looks at the idle nodes of so many seconds that differ by less than a share of a core: the new logs have been
flushed for the first time."""
IDLE_S = 20.0
TIMEOUT_S = 600.0
RESULTS = {
    "elections_of_a_controller": "INFO broker.quorum.controller_driver: active controller",
    "fencings": ": fencing brokers ",
}
"""The words in a node's log by which each is counted."""


@dataclass(frozen=True, slots=True)
class Options:
    partitions: int = option(100, "of the topic")
    times: int = option(5, "rounds of restarts")


def play(run: Run[Options]) -> None:
    partitions, say = run.options.partitions, run.say
    cluster = run.cluster(NODES, start_timeout_s=TIMEOUT_S, defaults={})
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
    with PacedProducer(cluster.bootstrap, TOPIC, min(partitions, WRITTEN_MAX)) as paced:
        time.sleep(10)
        paced.phase("restarts")
        rounds = []
        for number in range(run.options.times):
            began = time.monotonic()
            for node in range(NODES):
                asked = time.monotonic()
                code = cluster.stop(node, TIMEOUT_S)
                stops.append(round(time.monotonic() - asked, 1))
                if code:
                    run.report.wrong("bad-stop", f"node {node} stopped with exit code {code}")
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
    figures |= {name: _count(cluster, text) for name, text in RESULTS.items()}
    figures["acks"] = paced.quantiles()
    run.report.all_wrong("failed", paced.failed)
    run.report.figures |= figures


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
    before = [cpu_s(cluster.pid(node)) for node in range(NODES)]
    time.sleep(seconds)
    return [(cpu_s(cluster.pid(node)) - cpu) / seconds for node, cpu in enumerate(before)]


def _nodes(cluster: Cluster) -> dict[str, list[int]]:
    """Resident memory and open descriptors of each node."""
    pids = [cluster.pid(node) for node in range(NODES)]
    open_files = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
    return {"rss_mib": [rss_mib(pid) for pid in pids], "open_files": open_files}


def _count(cluster: Cluster, text: str) -> int:
    """How often the nodes' logs say it."""
    return sum(cluster.log_path(node).read_text(errors="replace").count(text) for node in range(NODES))


CAMPAIGN = Campaign("tests.growth.rolling", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
