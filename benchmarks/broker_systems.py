"""The two systems of benchmarks/broker.py behind one face: start, ready, a topic, what it costs, stop.

Ours is penstock.testing's Cluster with a node's own defaults; Kafka is the one of ../shared/peers (its README says what
it needs). Both on loopback, one at a time, each with a directory of its own. What a client does to them is in
broker_client_penstock.py and broker_client_kafka.py.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

PARTITIONS = 6
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class System(Protocol):
    """A running cluster."""

    name: str
    client_module: str
    bootstrap: str
    ready_seconds: float

    def pids(self) -> Sequence[int]: ...

    def create_topic(self, name: str) -> None: ...


def rss_bytes(system: System) -> int:
    """Resident memory of all nodes together."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES for pid in system.pids())


def cpu_seconds(system: System) -> float:
    """User and system time of all nodes together, since each started."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in system.pids()]
    return sum(int(f[11]) + int(f[12]) for f in fields) / TICKS_PER_SECOND


class Penstock:
    """Ours: fsync before the ack, on every in-sync replica."""

    name = "penstock"
    client_module = "benchmarks.broker_client_penstock"

    def __init__(self, cluster: Any, nodes: int, ready_seconds: float) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self.bootstrap = cluster.bootstrap
        self.ready_seconds = ready_seconds

    def pids(self) -> list[int]:
        return [self._cluster.pid(index) for index in range(self._nodes)]

    def create_topic(self, name: str) -> None:
        from penstock import Admin

        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, PARTITIONS, self._nodes)


class Kafka:
    """Theirs: plain, which acks from the page cache, or with an fsync before the ack, which is what ours does."""

    client_module = "benchmarks.broker_client_kafka"

    def __init__(self, peer: Any, *, fsync: bool) -> None:
        self.name = "kafka-fsync" if fsync else "kafka"
        self._peer = peer
        self.bootstrap = peer.bootstrap
        self.ready_seconds = peer.ready_seconds

    def pids(self) -> list[int]:
        return [process.pid for process in self._peer.processes]

    def create_topic(self, name: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, self._peer.nodes)]).values():
            created.result(60)


@contextmanager
def penstock(nodes: int) -> Iterator[System]:
    """Started within, from empty directories; the start includes their formatting."""
    from penstock.testing import Cluster

    began = time.monotonic()
    with Cluster(nodes, defaults={}) as cluster:
        yield Penstock(cluster, nodes, time.monotonic() - began)


@contextmanager
def kafka(peers: Path, nodes: int, *, fsync: bool = False) -> Iterator[System]:
    """Started within, from empty directories; their formatting comes before the clock."""
    if str(peers) not in sys.path:
        sys.path.append(str(peers))
    import peers as module

    with module.Kafka(nodes, fsync=fsync) as peer:
        yield Kafka(peer, fsync=fsync)


def missing_for_kafka(peers: Path) -> list[str]:
    """What this machine lacks for Kafka's rows."""
    missing = [] if (peers / "peers.py").is_file() else [str(peers / "peers.py")]
    missing += [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return missing + ([] if importlib.util.find_spec("confluent_kafka") else ["confluent-kafka (PyPI)"])
