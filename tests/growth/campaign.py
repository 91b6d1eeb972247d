"""One run: three nodes become five and three again, while producers and consumers go on, and the verdict.

    three nodes, a topic of ballast, writers of every kind and readers that never rest
    two nodes join; every partition moves, throttled; meanwhile a destination is killed (-9) and comes back, then the
      active controller; a move is cancelled half-way
    the cluster is balanced by its command
    the nodes that joined are drained, stopped, and unregistered
    the writers close, the readers go to the end, a new consumer reads everything again, replicas are compared

What the clients were told is judged by the ledger of the chaos runs. A write that fails is an anomaly here, because
there are always two replicas in sync.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock import Admin, Producer, TopicPartition
from penstock.testing import Cluster
from tests.chaos import campaign as chaos
from tests.chaos.history import History
from tests.chaos.ledger import Ledger, Verdict
from tests.growth.latency import PacedProducer
from tests.support import replica_bytes

NODES, JOIN = 3, 2
BALLAST, BALLAST_PARTITIONS = "ballast", 8
PACED, PACED_PARTITIONS = "paced", 6
RECORD_BYTES = 64 * 1024
WAIT_S = 300.0
BASELINE_S = 15.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Config:
    """`ballast_bytes` lie in the cluster before anything moves; `throttle` is bytes a second of each broker."""

    seed: int
    ballast_bytes: int
    throttle: int


@dataclass(slots=True)
class Outcome:
    """The result; `directory` is kept when it is not ok."""

    verdict: Verdict
    wrong: Counter[str]
    examples: list[str]
    latency: dict[str, dict[str, float]]
    figures: dict[str, object]
    seconds: float
    directory: Path

    @property
    def ok(self) -> bool:
        return not self.wrong

    def as_json(self) -> dict[str, object]:
        """One object for one line."""
        return {
            "ok": self.ok,
            "anomalies": dict(self.wrong),
            "sent": self.verdict.sent,
            "acked": self.verdict.acked,
            "read": self.verdict.read,
            **self.figures,
            "latency": self.latency,
            "seconds": round(self.seconds, 1),
            "examples": self.examples,
            **({} if self.ok else {"kept": str(self.directory)}),
        }


def run(config: Config, directory: Path, say: Callable[[str], None]) -> Outcome:
    """From empty directories to compared replicas."""
    began = time.monotonic()
    with History(directory / "history.jsonl") as history:
        ledger = Ledger()
        with Cluster(NODES, chaos.CLUSTER_CONFIG, directory / "cluster") as cluster:
            with Admin(cluster.bootstrap) as admin:
                load = chaos.Load(cluster.bootstrap, admin, ledger, history, chaos.Config(config.seed, kinds=()))
                story = Story(config, cluster, admin, say)
                story.fill()
                with load.running(), PacedProducer(cluster.bootstrap, PACED, PACED_PARTITIONS) as paced:
                    story.tell(paced)
                where = {topic: admin.describe_topic(topic).partitions for topic in (chaos.STEADY, BALLAST, PACED)}
            for node in range(NODES):
                cluster.stop(node)
            load.judge_writers()
            verdict = ledger.judge(load.writers.possible_duplicates)
            wrong, examples = Counter(verdict.anomalies), list(verdict.examples)
            for topic, partitions in where.items():
                for p in partitions:
                    dirs = [cluster.directory(node) / f"{topic}-{p.partition}" for node in p.replicas]
                    if len({replica_bytes.log_bytes(path) for path in dirs}) != 1:
                        wrong["different-replicas"] += 1
                        examples.append(f"different-replicas: {topic}-{p.partition} of {p.replicas}")
            for failed in (*paced.failed, *story.wrong):
                wrong["failed"] += 1
                examples.append(failed)
            if sum(load.writers.failed.values()) - load.writers.failed[chaos.IMPATIENT]:
                wrong["failed-writes"] += 1
                examples.append(f"failed: {dict(load.writers.failed)}")
    return Outcome(verdict, wrong, examples[:20], paced.quantiles(), story.figures, time.monotonic() - began, directory)


@dataclass(slots=True)
class Story:
    """What the operator does, by the commands that a user has."""

    config: Config
    cluster: Cluster
    admin: Admin
    say: Callable[[str], None]
    figures: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def fill(self) -> None:
        """The ballast, and a topic for the paced producer."""
        settings = {"min.insync.replicas": 2}
        self.admin.create_topic(BALLAST, BALLAST_PARTITIONS, NODES, {**settings, "segment.bytes": 16 << 20})
        self.admin.create_topic(PACED, PACED_PARTITIONS, NODES, settings)
        random = Random(self.config.seed)
        with Producer(self.cluster.bootstrap, acks="all") as producer:
            for number in range(self.config.ballast_bytes // RECORD_BYTES):
                value = random.randbytes(RECORD_BYTES)
                producer.send(BALLAST, value, partition=number % BALLAST_PARTITIONS)

    def tell(self, paced: PacedProducer) -> None:
        """All of it."""
        time.sleep(BASELINE_S)
        self.say("two nodes join")
        paced.phase("join")
        new = [self.cluster.add_node() for _ in range(JOIN)]
        self._throttle(self.config.throttle)
        self._move_ballast(new, paced)
        self._move_the_rest(new, paced)
        self._throttle(None)
        paced.phase("balance")
        self.say("balance")
        self.figures["balance"] = self._penstock("cluster", "balance", "--json")
        for node in new:
            self._take_out(node, paced)
        self._check_spread()

    def _move_ballast(self, new: Sequence[int], paced: PacedProducer) -> None:
        """A move that nothing disturbs: how fast is it, and how long do acks take meanwhile?"""
        self.say("the ballast moves, throttled")
        paced.phase("throttled move")
        moves = {
            TopicPartition(BALLAST, p.partition): [new[p.partition % JOIN], *p.replicas[1:]]
            for p in self.admin.describe_topic(BALLAST).partitions
        }
        began = time.monotonic()
        self._require(self.admin.alter_partition_reassignments(moves))
        self._wait_moved()
        seconds = time.monotonic() - began
        by_follower = self.config.ballast_bytes / JOIN / seconds
        self.figures["throttle_bytes_per_second"] = self.config.throttle
        self.figures["move_bytes_per_second_of_a_follower"] = round(by_follower)
        self.figures["move_rate_by_throttle"] = round(by_follower / self.config.throttle, 3)

    def _move_the_rest(self, new: Sequence[int], paced: PacedProducer) -> None:
        """Every partition of the others moves; nodes are killed meanwhile, and a move is cancelled."""
        self.say("every other partition moves; a destination and the controller are killed")
        paced.phase("kills")
        first = self._rotated(BALLAST, new, by=1)
        self._require(self.admin.alter_partition_reassignments(first))
        self._half_way(first)
        self._require(self.admin.alter_partition_reassignments(dict.fromkeys(list(first)[: len(first) // 2])))
        self.say("half of it is cancelled half-way")
        self._killed(new[0])
        self._killed(self.cluster.controller())
        self._wait_moved()
        for topic in (chaos.STEADY, PACED):
            moves = self._rotated(topic, new, by=1)
            self._require(self.admin.alter_partition_reassignments(moves))
            self._wait_moved()

    def _rotated(self, topic: str, new: Sequence[int], by: int) -> dict[TopicPartition, list[int]]:
        """Of each partition one replica goes from its broker to the next one that has none."""
        brokers = [*range(NODES), *new]
        moves = {}
        for p in self.admin.describe_topic(topic).partitions:
            free = [broker for broker in brokers if broker not in p.replicas]
            moves[TopicPartition(topic, p.partition)] = [*p.replicas[1:], free[(p.partition + by) % len(free)]]
        return moves

    def _killed(self, node: int) -> None:
        self.cluster.kill(node)
        time.sleep(3)
        self.cluster.start(node)

    def _take_out(self, node: int, paced: PacedProducer) -> None:
        paced.phase("drain")
        self.say(f"node {node} is drained, stopped and unregistered")
        began = time.monotonic()
        self._penstock("brokers", "drain", str(node), "--json")
        self.figures[f"drain_of_{node}_s"] = round(time.monotonic() - began, 1)
        self.cluster.stop(node)
        self._penstock("brokers", "unregister", str(node))

    def _check_spread(self) -> None:
        registered = sorted(broker.node_id for broker in self.admin.describe_cluster().brokers)
        if registered != list(range(NODES)):
            self.wrong.append(f"registered are {registered}")
        for description in self.admin.describe_topics():
            for p in description.partitions:
                if sorted(p.replicas) != list(range(NODES)) or sorted(p.isr) != list(range(NODES)):
                    self.wrong.append(f"{description.name}-{p.partition}: replicas {p.replicas}, in sync {p.isr}")

    def _throttle(self, rate: int | None) -> None:
        changes = []
        for side in ("leader", "follower"):
            key = f"{side}.replication.throttled.rate"
            changes += ["--unset", key] if rate is None else ["--set", f"{key}={rate}"]
        self._penstock("configs", "alter", "--broker-default", *changes)

    def _half_way(self, moves: dict[TopicPartition, list[int]]) -> None:
        """Until some bytes were copied, and not all."""
        before = None
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            progress = self.admin.reassignment_progress()
            left = sum(p.left_bytes or 0 for tp, p in progress.items() if tp in moves)
            if before is not None and left < before * 0.7:
                return
            before = left if before is None else max(before, left)
            time.sleep(POLL_S)
        self.wrong.append("the moves were not half done in time")

    def _wait_moved(self) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.admin.list_partition_reassignments():
            if time.monotonic() > deadline:
                self.wrong.append(f"still moving: {list(self.admin.reassignment_progress().items())[:3]}")
                return
            time.sleep(POLL_S)

    def _require(self, results: dict[TopicPartition, object]) -> None:
        self.wrong += [f"{tp}: {error}" for tp, error in results.items() if error is not None]

    def _penstock(self, *arguments: str) -> object:
        program = "import sys; from penstock.cli.main import main; sys.argv[0] = 'penstock'; main()"
        command = [sys.executable, "-c", program, *arguments, "--bootstrap", self.cluster.bootstrap]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        if done.returncode != 0:
            self.wrong.append(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-500:]}")
            return None
        return json.loads(done.stdout.splitlines()[-1]) if "--json" in arguments and done.stdout else None
