"""One topic of many partitions: how long its creation takes, and what it costs an idle cluster, beside Apache Kafka.

    python -m benchmarks.partitions [--partitions 1000 10000] [--peers DIR]

Three nodes on loopback, three replicas, each cluster from empty directories. Times count from the call that creates the
topic: `created_s` is its answer; `led_s` is when the metadata names a leader for each partition; `in_sync_s` is when
every replica is in the ISR; `written_s` is when a record that was sent to each partition right after the creation is
acked, with acks=all, or null: the error stands above the row. The idle share is of one core, for all nodes together,
taken when it does not change any more. With `--peers`, the folder of a `peers.py` that starts Kafka through Maven,
Kafka's rows stand beside ours, in the same run; else the run says what is missing. One JSON line a row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.broker_systems import PAGE_BYTES, TICKS_PER_SECOND, missing_for_kafka
from penstock import Admin, Producer
from penstock.testing import Cluster

NODES, TOPIC, VALUE = 3, "many", b"x" * 100
LOOK_S = 0.1
SETTLE_S, SETTLE_S_MAX, SETTLED_SHARE = 5.0, 120.0, 0.02
"""Two looks at the idle cluster of so many seconds that differ by less than a share of a core."""
IDLE_S = 20.0
TIMEOUT_S = 300.0
KAFKA_STEP = 5_000
"""Kafka's controller refuses more than 10,000 records at once (POLICY_VIOLATION), so a larger topic is grown."""


class Asked(Protocol):
    """A running cluster, as far as this is about it."""

    name: str
    ready_seconds: float

    def pids(self) -> list[int]: ...

    def create(self, partitions: int) -> None: ...

    def counts(self) -> tuple[int, int]:
        """Partitions that have a leader, and those that have every replica in the ISR."""
        ...

    def write(self, partitions: int) -> None:
        """A record to each partition; returns when all are acked."""
        ...


class OurCluster:
    """Penstock."""

    name = "penstock"

    def __init__(self, cluster: Cluster, admin: Admin, ready_seconds: float) -> None:
        self._cluster, self._admin, self.ready_seconds = cluster, admin, ready_seconds

    def pids(self) -> list[int]:
        return [self._cluster.pid(node) for node in range(NODES)]

    def create(self, partitions: int) -> None:
        self._admin.create_topic(TOPIC, partitions, NODES, {"min.insync.replicas": 2})

    def counts(self) -> tuple[int, int]:
        found = self._admin.describe_topic(TOPIC).partitions
        return sum(p.leader_id >= 0 for p in found), sum(len(p.isr) == len(p.replicas) for p in found)

    def write(self, partitions: int) -> None:
        with Producer(self._cluster.bootstrap, acks="all", delivery_timeout_ms=int(TIMEOUT_S * 1000)) as producer:
            sent = [producer.send(TOPIC, VALUE, partition=number) for number in range(partitions)]
            for future in sent:
                future.result(TIMEOUT_S)


class KafkaCluster:
    """Kafka; `confluent-kafka` is its client."""

    name = "kafka"

    def __init__(self, peer: Any) -> None:
        from confluent_kafka.admin import AdminClient

        self._peer, self.ready_seconds = peer, peer.ready_seconds
        self._admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})

    def pids(self) -> list[int]:
        return [process.pid for process in self._peer.processes]

    def create(self, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions, NewTopic

        first = min(partitions, KAFKA_STEP)
        new = NewTopic(TOPIC, first, NODES, config={"min.insync.replicas": "2"})
        for created in self._admin.create_topics([new], request_timeout=TIMEOUT_S).values():
            created.result(TIMEOUT_S)
        for count in range(first, partitions, KAFKA_STEP):
            more = NewPartitions(TOPIC, min(partitions, count + KAFKA_STEP))
            for created in self._admin.create_partitions([more], request_timeout=TIMEOUT_S).values():
                created.result(TIMEOUT_S)

    def counts(self) -> tuple[int, int]:
        found = self._admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions.values()
        return sum(p.leader >= 0 for p in found), sum(len(p.isrs) == len(p.replicas) for p in found)

    def _known(self, client: Any) -> int:
        return len(client.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions)

    def write(self, partitions: int) -> None:
        from confluent_kafka import Producer as KafkaProducer

        errors: list[object] = []
        timeout_ms = int(TIMEOUT_S * 1000)
        producer = KafkaProducer(
            {
                "bootstrap.servers": self._peer.bootstrap,
                "acks": "all",
                "delivery.timeout.ms": timeout_ms,
                "request.timeout.ms": timeout_ms,
                "socket.timeout.ms": timeout_ms,  # a request waits long for its turn: each brings one partition
            }
        )
        began = time.perf_counter()  # a topic that has grown is not known whole at once
        wait(lambda: self._known(producer) == partitions, lambda: time.perf_counter() - began)
        for number in range(partitions):
            producer.produce(TOPIC, VALUE, partition=number, on_delivery=lambda e, _: errors.append(e) if e else None)
        if producer.flush(TIMEOUT_S) or errors:
            raise RuntimeError(f"not every partition of Kafka took its record: {errors[:3]}")


def measure(system: Asked, partitions: int) -> dict[str, object]:
    """One row; the cluster is new."""
    before = figures_of(system)
    began = time.perf_counter()

    def since() -> float:
        return round(time.perf_counter() - began, 2)

    system.create(partitions)
    row: dict[str, object] = {"system": system.name, "partitions": partitions, "created_s": since()}
    written: list[float] = []
    writer = threading.Thread(
        target=lambda: (system.write(partitions), written.append(since())), name="writer", daemon=True
    )
    writer.start()
    row["led_s"] = wait(lambda: system.counts()[0] == partitions, since)
    row["in_sync_s"] = wait(lambda: system.counts()[1] == partitions, since)
    writer.join()
    row["written_s"] = written[0] if written else None
    settled = settle(system)
    return row | {
        "ready_s": round(system.ready_seconds, 1),
        "idle_before": before["idle_share"],
        "mib_before": before["mib"],
        **figures_of(system),
        "open_files": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in system.pids()),
        "settled": settled,
    }


def figures_of(system: Asked) -> dict[str, object]:
    """The idle load and the memory of all nodes together."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in system.pids())
    return {"idle_share": round(share(system, IDLE_S), 3), "mib": pages * PAGE_BYTES >> 20}


def share(system: Asked, seconds: float) -> float:
    """The part of one core that the system uses while nobody calls it."""
    before = cpu_s(system)
    time.sleep(seconds)
    return (cpu_s(system) - before) / seconds


def cpu_s(system: Asked) -> float:
    """User and system time."""
    stats = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii") for pid in system.pids()]
    fields = [stat.rpartition(")")[2].split() for stat in stats]
    return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS_PER_SECOND


def settle(system: Asked) -> bool:
    """True if the idle share stands still before the time is over: new logs are flushed for the first time."""
    began, before = time.monotonic(), float("inf")
    while time.monotonic() - began < SETTLE_S_MAX:
        now = share(system, SETTLE_S)
        if abs(before - now) < SETTLED_SHARE:
            return True
        before = now
    return False


def wait(is_there: Callable[[], bool], since: Callable[[], float]) -> float:
    """The time at which it was there. RuntimeError if it takes too long."""
    while not is_there():
        if since() > TIMEOUT_S:
            raise RuntimeError(f"the topic was not there after {TIMEOUT_S:g} s")
        time.sleep(LOOK_S)
    return since()


@contextmanager
def penstock() -> Iterator[Asked]:
    began = time.perf_counter()
    with (
        Cluster(NODES, defaults={}) as cluster,
        Admin(cluster.bootstrap, default_api_timeout_ms=int(TIMEOUT_S * 1000)) as admin,
    ):
        yield OurCluster(cluster, admin, time.perf_counter() - began)


@contextmanager
def kafka(peers: Path) -> Iterator[Asked]:
    if str(peers) not in sys.path:
        sys.path.append(str(peers))
    import peers as module

    with module.Kafka(NODES) as peer:
        yield KafkaCluster(peer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--peers", type=Path, help="the folder of peers.py")
    options = parser.parse_args()
    missing = missing_for_kafka(options.peers)
    if missing:
        print(json.dumps({"system": "kafka", "missing": missing}), flush=True)
    for partitions in options.partitions:
        with penstock() as system:
            print(json.dumps(measure(system, partitions)), flush=True)
        if not missing:
            with kafka(options.peers) as system:
                print(json.dumps(measure(system, partitions)), flush=True)


if __name__ == "__main__":
    main()
