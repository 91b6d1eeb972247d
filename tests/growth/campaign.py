"""One run: a story of replicas that move, while writers of every kind and readers go on, and the verdict.

The stories are in growing.py and balance.py. When one has ended, the writers close, the readers go to the end, a new
consumer reads everything again, and replicas are compared.

What the clients were told is judged by the ledger of the chaos runs. A write that fails is an anomaly here, because
there are always two replicas in sync.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock import Admin
from penstock.testing import Cluster
from tests.chaos import campaign as chaos
from tests.chaos.history import History
from tests.chaos.ledger import Ledger, Verdict
from tests.growth.latency import PacedProducer
from tests.growth.operator import Operator
from tests.support import replica_bytes

Say = Callable[[str], None]
PACED, PACED_PARTITIONS = "paced", 6


class Story(Protocol):
    """A story of a cluster; it says what is wrong to its operator."""

    @property
    def operator(self) -> Operator: ...

    @property
    def figures(self) -> dict[str, object]: ...

    @property
    def topics(self) -> Sequence[str]:
        """The topics of the story; PACED is one of them."""
        ...

    def fill(self) -> None:
        """Makes the topics, before the clients begin."""
        ...

    def tell(self, paced: PacedProducer) -> None: ...


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


def run(
    seed: int, nodes: Sequence[Mapping[str, object]], begin: Callable[[Operator], Story], directory: Path, say: Say
) -> Outcome:
    """From empty directories to compared replicas; `nodes` are the keys that each node has for itself."""
    began = time.monotonic()
    with History(directory / "history.jsonl") as history:
        ledger = Ledger()
        with Cluster(len(nodes), chaos.CLUSTER_CONFIG, directory / "cluster", node_configs=nodes) as cluster:
            with Admin(cluster.bootstrap) as admin:
                load = chaos.Load(cluster.bootstrap, admin, ledger, history, chaos.Config(seed, kinds=()))
                story = begin(Operator(cluster, admin, say))
                story.fill()
                with load.running(), PacedProducer(cluster.bootstrap, PACED, PACED_PARTITIONS) as paced:
                    story.tell(paced)
                where = {topic: admin.describe_topic(topic).partitions for topic in (chaos.STEADY, *story.topics)}
            for node in range(len(cluster)):
                if cluster.is_running(node):
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
            for failed in (*paced.failed, *story.operator.wrong):
                wrong["failed"] += 1
                examples.append(failed)
            if sum(load.writers.failed.values()) - load.writers.failed[chaos.IMPATIENT]:
                wrong["failed-writes"] += 1
                examples.append(f"failed: {dict(load.writers.failed)}")
    return Outcome(verdict, wrong, examples[:20], paced.quantiles(), story.figures, time.monotonic() - began, directory)
