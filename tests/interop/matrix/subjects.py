"""The cluster that the clients are let loose on: ours, or Apache Kafka, which shows that the checks are right."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

NODES = 3
QUICK = {"broker.heartbeat.interval.ms": 200, "broker.session.timeout.ms": 2000}
"""A death is noticed as soon as in `penstock.testing`."""


SECURE = {"sasl.enabled.mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]}
"""PLAIN is for the request that is written by hand (raw_fetch.py)."""


class Subject(Protocol):
    name: str
    bootstrap: str
    login: Mapping[str, str]
    """Variables for the drivers (tests/interop/drivers/login.py); none for a cluster that is open."""

    def down(self, node_id: int) -> AbstractContextManager[None]:
        """Within the block the node is dead, by SIGKILL; afterwards it takes part again."""
        ...

    def heal(self) -> None:
        """Starts each node that is not running, and waits until all replicas are in sync."""
        ...


class Penstock:
    """Three nodes of ours; clients use the listener that speaks Kafka's protocol."""

    name = "penstock"

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.bootstrap: str = cluster.kafka_bootstrap
        self.login = _login(cluster.secured)
        if self.login:
            self.name = "penstock over TLS with SCRAM"

    def down(self, node_id: int) -> AbstractContextManager[None]:
        down: AbstractContextManager[None] = self._cluster.down(node_id)
        return down

    def heal(self) -> None:
        self._cluster.heal()


class Kafka:
    """Three nodes of Apache Kafka, by the `peers.py` of a folder."""

    name = "kafka"

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._killed: list[int] = []
        self.bootstrap: str = peer.bootstrap
        self.login: Mapping[str, str] = {}

    @contextmanager
    def down(self, node_id: int) -> Iterator[None]:
        self._killed.append(node_id - 1)
        self._peer.kill(node_id - 1)
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        from confluent_kafka.admin import AdminClient

        while self._killed:
            self._peer.restart(self._killed[-1])
            self._killed.pop()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while not self._is_whole(admin):
            pass

    def _is_whole(self, admin: Any) -> bool:
        found = admin.list_topics(timeout=20)
        partitions = [p for topic in found.topics.values() for p in topic.partitions.values()]
        return len(found.brokers) == NODES and all(len(p.isrs) == len(p.replicas) for p in partitions)


@contextmanager
def penstock(*, secure: bool = False) -> Iterator[Subject]:
    from penstock.testing import Cluster

    with Cluster(NODES, secure=secure, config=SECURE if secure else None) as cluster:
        yield Penstock(cluster)


def _login(secured: Any) -> Mapping[str, str]:
    if secured is None:
        return {}
    return {
        "INTEROP_TLS_CA": str(secured.ca),
        "INTEROP_USERNAME": secured.client_options["username"],
        "INTEROP_PASSWORD": secured.password_file.read_text(encoding="utf-8").strip(),
        "INTEROP_PROPERTIES": str(secured.kafka_properties),
    }


@contextmanager
def kafka(peers: Path) -> Iterator[Subject]:
    sys.path.append(str(peers))
    import peers as module

    with module.Kafka(NODES, config=QUICK) as peer:
        yield Kafka(peer)
