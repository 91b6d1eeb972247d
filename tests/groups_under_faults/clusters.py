"""The clusters under the group, behind one face: three nodes of ours, or of a real Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.testing import Cluster
from tests.groups_under_faults.campaign import CONFIG, NODE_S, PARTITIONS, TOPIC, Nodes

NODES = 3
KAFKA_CONFIG = CONFIG | {
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "broker.session.timeout.ms": 6_000,
}


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


@contextmanager
def penstock() -> Iterator[Nodes]:
    with Cluster(NODES, config=CONFIG) as cluster:
        cluster.topic(TOPIC, PARTITIONS, NODES)
        yield PenstockNodes(cluster)


@contextmanager
def kafka(peers: Path) -> Iterator[Nodes]:
    if str(peers) not in sys.path:
        sys.path.append(str(peers))
    import peers as module

    with module.Kafka(NODES, config=dict(KAFKA_CONFIG)) as peer:
        peer.create_topic(TOPIC, PARTITIONS, NODES)
        yield KafkaNodes(peer)
