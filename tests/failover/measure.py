"""Takes the leader of a partition away, again and again, and measures how long its partitions ack nothing.

Three nodes, three replicas, min.insync.replicas=2, a steady producer. Each round strikes the node that leads partition
0, waits until everything that it led acks again, heals it, and waits until every ISR is whole. A round counts apart
where that node was the active controller too: then the quorum has to elect first. The nodes talk through network.py in
every run, so that all figures have its cost in them, which is small.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock import Admin
from penstock.testing import Cluster
from penstock.testing.cluster import TEST_CONFIG
from penstock.types import NO_LEADER
from tests.failover.faults import Fault, fault_of
from tests.failover.load import PARTITIONS, TOPIC, Load, read_topic
from tests.failover.network import Network

NODES = 3
ROUND_TIMEOUT_S = 90.0
CALM_S_MAX = 1.0
"""Between rounds, so that a fault meets heartbeats and fetches anywhere."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Config:
    """The plan of a measurement; `product_timeouts`: a node's defaults instead of those of tests; `controller`: the
    node that goes is always the active controller, and leads a partition too."""

    how: str
    times: int
    seed: int = 1
    product_timeouts: bool = False
    controller: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One time."""

    gap_ms: int
    was_controller: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a measurement. Duplicates are fine as long as the producer has told of them."""

    config: Config
    rounds: Sequence[Round]
    acked: int
    failed: dict[str, int]
    lost: int
    duplicates: int
    possible_duplicates: int
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.lost and not self.failed and self.duplicates <= self.possible_duplicates

    def as_json(self) -> dict[str, object]:
        """One object for one line."""
        return {
            "how": self.config.how,
            "time_outs": "product" if self.config.product_timeouts else "tests",
            "ok": self.ok,
            **_figures("leader", [r.gap_ms for r in self.rounds if not r.was_controller]),
            **_figures("leader_and_controller", [r.gap_ms for r in self.rounds if r.was_controller]),
            "acked": self.acked,
            "failed": self.failed,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "possible_duplicates": self.possible_duplicates,
            "seconds": round(self.seconds, 1),
        }


def _figures(name: str, gaps_ms: list[int]) -> dict[str, object]:
    median = round(statistics.median(gaps_ms)) if gaps_ms else None
    return {f"{name}_times": len(gaps_ms), f"{name}_p50_ms": median, f"{name}_max_ms": max(gaps_ms, default=None)}


def measure(config: Config, directory: Path, say: Callable[[str], None]) -> Outcome:
    """All rounds, and the check of every ack."""
    began = time.monotonic()
    with _networked_cluster(config, directory) as (cluster, network), Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, replication_factor=NODES, config={"min.insync.replicas": 2})
        load = Load(cluster.bootstrap)
        striker = _Striker(cluster, admin, load, fault_of(config.how, cluster, network), config, say)
        with load.running():
            rounds = [striker.play(number) for number in range(config.times)]
        log = read_topic(cluster.bootstrap)
    copies = Counter(log.values())
    return Outcome(
        config,
        rounds,
        acked=len(load.acked),
        failed=dict(load.failed),
        lost=sum(log.get(place) != value for value, place in load.acked.items()),
        duplicates=sum(count - 1 for count in copies.values()),
        possible_duplicates=load.statistics.possible_duplicates,
        seconds=time.monotonic() - began,
    )


@contextmanager
def _networked_cluster(config: Config, directory: Path) -> Iterator[tuple[Cluster, Network]]:
    defaults = {"num.io.threads": 4} if config.product_timeouts else TEST_CONFIG
    with Network(NODES) as network:
        cluster = Cluster(NODES, directory=directory, node_configs=network.node_configs, defaults=defaults)
        network.attach(cluster)
        with cluster:
            yield cluster, network


class _Striker:
    """The rounds."""

    def __init__(
        self,
        cluster: Cluster,
        admin: Admin,
        load: Load,
        fault: Fault,
        config: Config,
        say: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._load = load
        self._fault = fault
        self._how, self._both = config.how, config.controller
        self._say = say
        self._random = random.Random(config.seed)
        self._pause = threading.Event()

    def play(self, number: int) -> Round:
        self._pause.wait(self._random.random() * CALM_S_MAX)
        victim, led = self._controller_that_leads() if self._both else self._leader()
        was_controller = self._admin.describe_quorum().leader_id == victim
        self._load.gaps.begin(led)
        self._fault.strike(victim)
        self._load.gaps.struck()
        gap_ms = round(1000 * self._load.gaps.wait(ROUND_TIMEOUT_S))
        self._say(f"{number + 1}. {self._how} node {victim}{', controller' * was_controller}: {gap_ms} ms")
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
