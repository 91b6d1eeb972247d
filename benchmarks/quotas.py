"""Holds a node's clients to quotas, and measures what they get: `python -m benchmarks.quotas [--quick]`.

    produce            producer_byte_rate, our own client
    consume            consumer_byte_rate, our own client
    produce, Kafka's   producer_byte_rate, confluent-kafka, where it is installed
    connections        connection_creation_rate, after the burst: new connections that are answered

One node and one process of clients, which run at the same time under client ids of their own. A rate is that of 30 s
from the first answer on; without --quick also that of the 30 s behind them. Exit code 1 if one is off by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.client.admin.admin_types import QuotaEntity
from penstock.testing import Cluster

GOAL = 0.05
SECONDS = 30.0
RATE = 500_000
CONNECTIONS = 10
VALUE = bytes(range(250)) * 40
"""10,000 bytes: what surrounds a record does not count against that."""
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
Count = Callable[[], int]


def produced(cluster: Cluster, until: Callable[[Count], None]) -> None:
    with Producer(
        cluster.bootstrap, client_id="produce", batch_size=16_384, buffer_memory=1 << 20, compression_type="none"
    ) as producer:
        producer.send("produced", VALUE).result(30)
        sends = iter(lambda: producer.send("produced", VALUE), None)
        until(_working(sends, lambda: producer.statistics().bytes_sent))


def consumed(cluster: Cluster, until: Callable[[Count], None]) -> None:
    with Consumer(
        cluster.bootstrap, client_id="consume", max_partition_fetch_bytes=50_000, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("consumed", 0)])
        polls = iter(lambda: consumer.poll(timeout_ms=20), None)
        until(_working(polls, lambda: consumer.statistics().fetch.bytes_fetched))


def produced_by_kafka(cluster: Cluster, until: Callable[[Count], None]) -> None:
    from confluent_kafka import Producer as KafkaProducer

    acked = 0

    def on_delivery(error: object, message: object) -> None:
        nonlocal acked
        assert error is None, error
        acked += len(VALUE)

    producer = KafkaProducer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap,
            "client.id": "kafka",
            "batch.size": 16_384,
            "queue.buffering.max.messages": 50,
        }
    )

    def sends() -> Iterator[None]:
        while True:
            try:
                producer.produce("kafka", VALUE, on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.02)
            yield None

    until(_working(sends(), lambda: acked))
    producer.flush(60)


def _working(work: Iterator[object], count: Count) -> Count:
    """Counts after a step more of the work."""

    def step() -> int:
        next(work)
        return count()

    return step


def rates(count: Count, periods: int) -> list[float]:
    """The rate of each period, from the first answer on."""
    before = count()
    while before == 0:
        before = count()
    found, began = [], time.perf_counter()
    for _ in range(periods):
        while (now := time.perf_counter()) - began < SECONDS:
            count()
        so_far = count()
        found.append((so_far - before) / (now - began))
        before, began = so_far, now
    return found


def is_kept(row: str, limit: float, found: list[float]) -> bool:
    is_held = True
    for number, rate in enumerate(found, 1):
        ratio = rate / limit
        is_held &= abs(ratio - 1) <= GOAL
        print(
            json.dumps({"row": row, "period": number, "quota": limit, "got": round(rate, 1), "ratio": round(ratio, 3)})
        )
    sys.stdout.flush()
    return is_held


def answered_s(address: tuple[str, int]) -> float:
    """How long a new connection waits for its first answer."""
    began = time.perf_counter()
    with socket.create_connection(address, 60) as far:
        far.sendall(API_VERSIONS)
        far.recv(1)
    return time.perf_counter() - began


def connections(cluster: Cluster, seconds: float) -> float:
    """New connections in a second, once the burst is over."""
    host, _, port = cluster.kafka_bootstrap.split(",")[0].rpartition(":")
    waited = 0
    while waited < 5:  # one alone may be the machine's
        waited = waited + 1 if answered_s((host, int(port))) > 0.5 / CONNECTIONS else 0
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        answered_s((host, int(port)))
        count += 1
    return count / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one period of 30 s")
    periods = 1 if parser.parse_args().quick else 2
    works = {"produce": produced, "consume": consumed, "produce, Kafka's": produced_by_kafka}
    with Cluster(1) as cluster:
        with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap, compression_type="none") as filler:
            for topic in ("produced", "consumed", "kafka"):
                admin.create_topic(topic, partitions=1)
            for _ in range(round(RATE * SECONDS * (periods + 1) / len(VALUE))):
                filler.send("consumed", VALUE)
            filler.flush()
            done = admin.alter_client_quotas(
                {
                    QuotaEntity(client_id="produce"): {"producer_byte_rate": RATE},
                    QuotaEntity(client_id="kafka"): {"producer_byte_rate": RATE},
                    QuotaEntity(client_id="consume"): {"consumer_byte_rate": RATE},
                }
            )
            assert not any(done.values()), done
        found: dict[str, list[float]] = {}

        def run(row: str) -> None:
            works[row](cluster, lambda count: found.update({row: rates(count, periods)}))

        with ThreadPoolExecutor() as threads:
            for work in [threads.submit(run, row) for row in works]:
                work.result()
        held = [is_kept(row, RATE, found[row]) for row in works]
        with Admin(cluster.bootstrap) as admin:
            admin.alter_client_quotas({QuotaEntity(ip=""): {"connection_creation_rate": CONNECTIONS}})
            held.append(is_kept("connections", CONNECTIONS, [connections(cluster, SECONDS) for _ in range(periods)]))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
