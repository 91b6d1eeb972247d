"""The clusters under the group, behind one face: three nodes of ours, or of a real Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from penstock.testing import Cluster
from tests.groups_under_faults.member import SESSION_MS
from tests.support.campaign.frame import Run

GROUP, TOPIC, PARTITIONS = "under-faults", "under-faults", 24
NODES, NODE_S = 3, 60.0
CONFIG = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 3,
}
KAFKA_CONFIG = CONFIG | {
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "broker.session.timeout.ms": 6_000,
}


class Nodes(Protocol):
    """The cluster under the group."""

    kafka_bootstrap: str
    bootstrap: str
    """For clients of ours; empty if there is no listener for them."""

    def ids(self) -> Sequence[int]: ...

    def kill(self, node_id: int) -> None: ...

    def stop(self, node_id: int) -> None: ...

    def start(self, node_id: int) -> None:
        """Returns when it serves again."""
        ...


class PenstockNodes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.bootstrap, self.kafka_bootstrap = cluster.bootstrap, cluster.kafka_bootstrap

    def ids(self) -> Sequence[int]:
        return range(len(self._cluster))

    def kill(self, node_id: int) -> None:
        self._cluster.kill(node_id)

    def stop(self, node_id: int) -> None:
        self._cluster.stop(node_id)

    def start(self, node_id: int) -> None:
        self._cluster.start(node_id)
        self._cluster.wait_in_sync()


class KafkaNodes:
    bootstrap = ""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self.kafka_bootstrap: str = peer.bootstrap

    def ids(self) -> Sequence[int]:
        return range(1, NODES + 1)

    def kill(self, node_id: int) -> None:
        self._peer.kill(node_id - 1)

    def stop(self, node_id: int) -> None:
        process = self._peer.processes[node_id - 1]
        process.terminate()
        process.wait(NODE_S)

    def start(self, node_id: int) -> None:
        from confluent_kafka.admin import AdminClient

        self._peer.restart(node_id - 1)
        admin = AdminClient({"bootstrap.servers": self.kafka_bootstrap, "log_level": 0})
        deadline = time.monotonic() + NODE_S
        while time.monotonic() < deadline:
            topics = admin.list_topics(timeout=NODE_S).topics.values()
            if all(len(p.isrs) == NODES for topic in topics for p in topic.partitions.values()):
                return
            time.sleep(0.2)
        raise RuntimeError(f"node {node_id} is not in every ISR after {NODE_S:.0f} s")


def penstock(run: Run[Any]) -> Nodes:
    cluster = run.cluster(NODES, CONFIG)
    cluster.topic(TOPIC, PARTITIONS, NODES)
    return PenstockNodes(cluster)


def kafka(run: Run[Any], peers: Path) -> Nodes:
    if str(peers) not in sys.path:
        sys.path.append(str(peers))
    import peers as module

    peer = run.enter(module.Kafka(NODES, config=dict(KAFKA_CONFIG)))
    peer.create_topic(TOPIC, PARTITIONS, NODES)
    return KafkaNodes(peer)
