"""Takes the leader of a partition away, again and again, and measures how long its partitions ack nothing.

    python -m tests.failover --how hang --times 20

Three nodes, three replicas, min.insync.replicas=2, a steady producer. Each round strikes the node that leads partition
0, waits until everything that it led acks again, heals it, and waits until every ISR is whole. A round counts apart
where that node was the active controller too: then the quorum has to elect first. The nodes talk through network.py in
every run, so that all figures have its cost in them, which is small. It is wrong when an acked record is missing in the
end, when one failed, or when the log has more duplicates than the producer says it may have.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass

from penstock import Admin
from penstock.testing import Cluster
from penstock.testing.cluster import TEST_CONFIG
from penstock.types import NO_LEADER
from tests.failover.faults import HOWS, Fault, fault_of
from tests.failover.load import PARTITIONS, TOPIC, Load
from tests.failover.network import Network
from tests.support.campaign.beside import beside
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.campaign.reading import places_of, tables_of

NODES = 3
ROUND_TIMEOUT_S = 90.0
CALM_S_MAX = 1.0
"""Between rounds, so that a fault meets heartbeats and fetches anywhere."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    how: str = option("kill", "what happens to the leader", choices=HOWS)
    times: int = option(20, "rounds")
    time_outs: str = option("tests", "whose sessions: tests', or a node's defaults", choices=("tests", "product"))
    controller: bool = option(False, "a leader that is the active controller, each time")


@dataclass(frozen=True, slots=True)
class Round:
    """One time."""

    gap_ms: int
    was_controller: bool


def play(run: Run[Options]) -> None:
    """All rounds, and the check of every ack."""
    options, network = run.options, run.enter(Network(NODES))
    defaults = TEST_CONFIG if options.time_outs == "tests" else {"num.io.threads": 4}
    configs = network.node_configs
    cluster = run.cluster(NODES, node_configs=configs, defaults=defaults, before_open=network.attach)
    admin = run.enter(Admin(cluster.bootstrap))
    admin.create_topic(TOPIC, PARTITIONS, replication_factor=NODES, config={"min.insync.replicas": 2})
    load = Load(cluster.bootstrap)
    striker = _Striker(run, cluster, admin, load, fault_of(options.how, cluster, network))
    with beside(load.write):
        rounds = [striker.play(number) for number in range(options.times)]
    _judge(run, cluster.bootstrap, load)
    run.report.figures |= {
        "how": options.how,
        "time_outs": options.time_outs,
        **_figures("leader", [r.gap_ms for r in rounds if not r.was_controller]),
        **_figures("leader_and_controller", [r.gap_ms for r in rounds if r.was_controller]),
    }


def _judge(run: Run[Options], bootstrap: str, load: Load) -> None:
    log = {
        (partition, offset): value
        for table in tables_of(bootstrap, places_of(TOPIC, PARTITIONS))
        for partition, offset, value in zip(
            *(table.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True
        )
    }
    lost = [value for value, place in load.acked.items() if log.get(place) != value]
    duplicates = sum(count - 1 for count in Counter(log.values()).values())
    possible = load.statistics.possible_duplicates
    run.report.all_wrong("lost", (f"{value!r} is not where its ack said" for value in lost))
    for name, count in load.failed.items():
        run.report.wrong("failed", name, count)
    if duplicates > possible:
        run.report.wrong("duplicates", f"{duplicates}, possible_duplicates is {possible}", duplicates - possible)
    run.report.figures |= {
        "acked": len(load.acked),
        "failed": dict(load.failed),
        "lost": len(lost),
        "duplicates": duplicates,
        "possible_duplicates": possible,
    }


def _figures(name: str, gaps_ms: list[int]) -> dict[str, object]:
    median = round(statistics.median(gaps_ms)) if gaps_ms else None
    return {f"{name}_times": len(gaps_ms), f"{name}_p50_ms": median, f"{name}_max_ms": max(gaps_ms, default=None)}


class _Striker:
    """The rounds."""

    def __init__(self, run: Run[Options], cluster: Cluster, admin: Admin, load: Load, fault: Fault) -> None:
        self._run, self._cluster, self._admin, self._load, self._fault = run, cluster, admin, load, fault
        self._pause = threading.Event()

    def play(self, number: int) -> Round:
        self._pause.wait(self._run.draw.random() * CALM_S_MAX)
        victim, led = self._controller_that_leads() if self._run.options.controller else self._leader()
        was_controller = self._admin.describe_quorum().leader_id == victim
        self._load.gaps.begin(led)
        self._fault.strike(victim)
        self._load.gaps.struck()
        gap_ms = round(1000 * self._load.gaps.wait(ROUND_TIMEOUT_S))
        role = ", controller" * was_controller
        self._run.say(f"{number + 1}. {self._run.options.how} node {victim}{role}: {gap_ms} ms")
        self._fault.heal(victim)
        self._cluster.wait_ready()
        self._wait_whole(victim)
        return Round(gap_ms, was_controller)

    def _leader(self) -> tuple[int, set[int]]:
        """A node, and the partitions that it leads."""
        partitions = self._admin.describe_topic(TOPIC).partitions
        victim = partitions[0].leader_id
        return victim, {p.partition for p in partitions if p.leader_id == victim}

    def _controller_that_leads(self) -> tuple[int, set[int]]:
        """Every node is the first replica of some partition, and leads that after a preferred election."""
        self._admin.elect_leaders()
        deadline = time.monotonic() + ROUND_TIMEOUT_S
        while True:
            victim = self._admin.describe_quorum().leader_id
            partitions = self._admin.describe_topic(TOPIC).partitions
            led = {p.partition for p in partitions if p.leader_id == victim}
            if led:
                return victim, led
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {ROUND_TIMEOUT_S:g} s controller {victim} leads nothing: {partitions}")
            self._pause.wait(POLL_S)

    def _wait_whole(self, victim: int) -> None:
        """Until every replica is in its ISR, by the word of a node that knows that the victim leads no more."""
        deadline = time.monotonic() + ROUND_TIMEOUT_S
        while True:
            partitions = self._admin.describe_topic(TOPIC).partitions
            short = {p.partition: p.isr for p in partitions if len(p.isr) < NODES or p.leader_id in (victim, NO_LEADER)}
            if not short:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {ROUND_TIMEOUT_S:g} s these ISRs are not whole: {short}")
            self._pause.wait(POLL_S)


CAMPAIGN = Campaign("tests.failover", __doc__, Options, play)
