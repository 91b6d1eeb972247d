"""One run: a story of replicas that move, while writers of every kind and readers go on, and the verdict.

The stories are in growing.py and balance.py. When one has ended, the writers close, the readers go to the end, a new
consumer reads everything again, and replicas are compared.

What the clients were told is judged by the ledger of the chaos runs. A write that fails is an anomaly here, because
there are always two replicas in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock import Admin
from tests.chaos import campaign as chaos
from tests.chaos.history import History
from tests.chaos.ledger import Ledger
from tests.growth.latency import PacedProducer
from tests.growth.operator import Operator
from tests.support import replica_bytes
from tests.support.campaign.frame import Run

PACED, PACED_PARTITIONS = "paced", 6


class Story(Protocol):
    """A story of a cluster; it says what is wrong to its operator."""

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


def tell(run: Run[Any], nodes: Sequence[Mapping[str, object]], begin: Callable[[Operator], Story]) -> None:
    """From empty directories to compared replicas; `nodes` are the keys that each node has for itself."""
    report = run.report
    history, ledger = run.enter(History(run.directory / "history.jsonl")), Ledger()
    cluster = run.cluster(len(nodes), chaos.CLUSTER_CONFIG, node_configs=nodes)
    with Admin(cluster.bootstrap) as admin:
        load = chaos.Load(cluster.bootstrap, admin, ledger, history, run.options.seed)
        story = begin(Operator(cluster, admin, report, run.say))
        story.fill()
        with load.running(), PacedProducer(cluster.bootstrap, PACED, PACED_PARTITIONS) as paced:
            story.tell(paced)
        where = {topic: admin.describe_topic(topic).partitions for topic in (chaos.STEADY, *story.topics)}
    for node in range(len(cluster)):
        if cluster.is_running(node):
            cluster.stop(node)
    load.judge(report)
    for topic, partitions in where.items():
        for p in partitions:
            dirs = [cluster.directory(node) / f"{topic}-{p.partition}" for node in p.replicas]
            if len({replica_bytes.log_bytes(path) for path in dirs}) != 1:
                report.wrong("different-replicas", f"{topic}-{p.partition} of {p.replicas}")
    report.all_wrong("failed", paced.failed)
    if sum(load.writers.failed.values()) - load.writers.failed[chaos.IMPATIENT]:
        report.wrong("failed-writes", str(dict(load.writers.failed)))
    report.figures |= {**story.figures, "latency": paced.quantiles()}
