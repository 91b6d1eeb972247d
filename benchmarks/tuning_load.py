"""One configuration under a load, for benchmarks/tuning.py: what the cluster and its clients saw.

The load has these phases on a fresh cluster, each as fast as it can: writing with acks=1, where followers may fall
behind; the wait until every ISR is whole again; writing with acks=all; single records, each after the ack of the one
before; look-ups by time. Nodes and clients share the machine's processors: rows of one run compare, and no others.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from penstock import Admin, Producer
from penstock.errors import PenstockError
from penstock.testing import Cluster

Acks = Literal["1", "all"]

TOPIC = "load"
PARTITIONS = 12
VALUE = b"v" * 100
MANY = 5_000
"""Records of one send_many."""
BATCH_BYTES = 16 * 1024
WHOLE_AGAIN_S_MAX = 60.0
LOOK_S = 0.5
"""Between two looks at the nodes' gauges."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one configuration. Idle shares and queues are of the node that was worst off."""

    acks_one_per_s: int
    acks_all_per_s: int
    ack_ms: float
    """The median for one batch at a time with acks=all."""
    look_ups_per_s: int
    handler_idle: float
    network_idle: float
    isr_shrinks: int
    isr_expands: int
    whole_again_s: float
    """From the end of the writing with acks=1 until every ISR had all its members; -1: not within a minute."""
    queue_max: int
    sessions_expired: int


def gauges(cluster: Cluster) -> list[Mapping[str, float]]:
    """The metrics of each node that answers, without labels."""
    found: list[Mapping[str, float]] = []
    for index in range(len(cluster)):
        try:
            with urllib.request.urlopen(cluster.metrics_url(index), timeout=5) as answer:
                text: str = answer.read().decode()
        except OSError:
            continue
        found.append({name: float(value) for name, value in re.findall(r"(?m)^(\w+) (\S+)$", text)})
    return found


class Watch:
    """Looks at the gauges during the load, and keeps the worst of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.queue_max = 0

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            for node in gauges(self._cluster):
                self.queue_max = max(self.queue_max, int(node["penstock_request_queue_size"]))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def outcome_of(config: Mapping[str, object], nodes: int, seconds: float, replicas: int = 3) -> Outcome:
    """Measures one configuration."""
    with Cluster(nodes, config=config, defaults={}) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, min(replicas, nodes))
        with Watch(cluster) as watch:
            acks_one = written_per_s(cluster, "1", seconds)
            whole_again_s = until_whole(admin)
            acks_all = written_per_s(cluster, "all", seconds)
            last = gauges(cluster)  # BEFORE the lighter phases: the idle shares are of the writing
            ack_ms = median_ack_ms(cluster, seconds / 2)
            look_ups = look_ups_per_s(cluster, admin, seconds / 2)
        ends = gauges(cluster)
    return Outcome(
        acks_one_per_s=acks_one,
        acks_all_per_s=acks_all,
        ack_ms=ack_ms,
        look_ups_per_s=look_ups,
        handler_idle=min(node["penstock_request_handler_avg_idle_percent"] for node in last),
        network_idle=min(node["penstock_network_processor_avg_idle_percent"] for node in last),
        isr_shrinks=_sum(ends, "penstock_isr_shrinks_total"),
        isr_expands=_sum(ends, "penstock_isr_expands_total"),
        whole_again_s=whole_again_s,
        queue_max=watch.queue_max,
        sessions_expired=_sum(ends, "penstock_broker_sessions_expired_total"),
    )


def _sum(nodes: list[Mapping[str, float]], name: str) -> int:
    """Over the nodes that have it: a broker that is no controller expires no session."""
    return int(sum(node.get(name, 0) for node in nodes))


@contextmanager
def producer_to(cluster: Cluster, acks: Acks) -> Iterator[Producer]:
    with Producer(cluster.bootstrap, acks=acks, batch_size=BATCH_BYTES) as producer:
        yield producer


def written_per_s(cluster: Cluster, acks: Acks, seconds: float) -> int:
    """Records that were acked in a second."""
    with producer_to(cluster, acks) as producer:
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            producer.send_many(TOPIC, [VALUE] * MANY)
        producer.flush()
        return round(producer.statistics().records_acked / (time.monotonic() - began))


def median_ack_ms(cluster: Cluster, seconds: float) -> float:
    """One record at a time."""
    times = []
    with producer_to(cluster, "all") as producer:
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            sent = time.monotonic()
            producer.send(TOPIC, value=VALUE).result()
            times.append(time.monotonic() - sent)
    return round(1000 * sorted(times)[len(times) // 2], 1)


def until_whole(admin: Admin) -> float:
    """Seconds until every ISR has all its members; -1 after a minute."""
    began = time.monotonic()
    while time.monotonic() < began + WHOLE_AGAIN_S_MAX:
        try:
            partitions = admin.describe_topic(TOPIC).partitions
            if all(len(one.isr) == len(one.replicas) for one in partitions):
                return round(time.monotonic() - began, 1)
        except PenstockError:
            pass  # the nodes are busy, or one was fenced
        time.sleep(LOOK_S)
    return -1.0


def look_ups_per_s(cluster: Cluster, admin: Admin, seconds: float) -> int:
    """Requests of look-ups by time that were answered in a second, of a partition of the leader of partition 0."""
    leader = admin.describe_topic(TOPIC).partitions[0].leader_id
    command = [sys.executable, "-m", "benchmarks.idle_gauges_load", "handlers", cluster.endpoint(leader), TOPIC]
    done = subprocess.run([*command, "1", str(seconds)], capture_output=True, text=True, check=True)
    return round(int(done.stdout) / seconds)
