"""Reads at followers, their saving and their cost: `python -m benchmarks.follower_reads [--mib 64] [--records 200]`.

Three nodes in three racks, topics of three replicas, and one consumer in each rack. Turns: the consumers name no rack,
so each reads from leaders, or each names its rack (KIP-392). In a turn each consumer reads all MiB from the beginning,
then a producer sends single records with acks=all, and each consumer says how long after the send it had each. Prints
a JSON line a turn: bytes that crossed racks, of how many, and the latency in ms. Exit code 1 when a byte crosses racks
where consumers name theirs.

Bytes that cross racks are counted here from what the nodes have sent to consumers, because a consumer that names no
rack is in none for a broker: a node's consumers are in its own rack or not, one third of them each.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from statistics import median, quantiles

from penstock import Consumer, Producer, TopicPartition
from penstock.testing import Cluster

RACKS = ("a", "b", "c")
PARTITIONS = 3
MIB = 1024 * 1024
VALUE = bytes(range(256)) * 4
PAUSE_S = 0.02
SETTLE_S = 1.0
SELECTS = "replica.selector.class"


class RackReader:
    """The consumer of one rack, in a thread of its own while it reads live records."""

    def __init__(self, cluster: Cluster, topic: str, rack: str) -> None:
        self._consumer = Consumer(cluster.bootstrap, client_rack=rack, auto_offset_reset="earliest")
        self._consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        self.latencies_ms: list[float] = []

    def read(self, count: int) -> float:
        """Reads so many records; the seconds that it took."""
        begun_s, found = time.perf_counter(), 0
        while found < count:
            found += len(self._consumer.poll(timeout_ms=1_000))
        return time.perf_counter() - begun_s

    def follow(self, count: int) -> threading.Thread:
        """Notes the latency of so many records from now on."""

        def work() -> None:
            while len(self.latencies_ms) < count:
                for record in self._consumer.poll(timeout_ms=1_000):
                    sent_s = float(record.value or b"0")
                    self.latencies_ms.append((time.perf_counter() - sent_s) * 1_000)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    @property
    def follower_bytes(self) -> int:
        return self._consumer.statistics().fetch.bytes_from_followers

    @property
    def bytes_read(self) -> int:
        return self._consumer.statistics().fetch.bytes_fetched

    def close(self) -> None:
        self._consumer.close()


def _sent(cluster: Cluster, index: int, name: str) -> float:
    with urllib.request.urlopen(cluster.metrics_url(index), timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def _turn(cluster: Cluster, *, names_racks: bool, size_bytes: int, records: int) -> dict[str, object]:
    topic, count = cluster.topic(partitions=PARTITIONS, replication_factor=3), size_bytes // len(VALUE)
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many(topic, [VALUE] * count).result(600)
        crossed = _crossed(cluster)
        readers = [RackReader(cluster, topic, rack if names_racks else "") for rack in RACKS]
        took_s = max(reader.read(count) for reader in readers)
        threads = [reader.follow(records) for reader in readers]
        time.sleep(SETTLE_S)
        for _ in range(records):
            producer.send(topic, repr(time.perf_counter()).encode()).result(60)
            time.sleep(PAUSE_S)
        for thread in threads:
            thread.join()
    total = sum(reader.bytes_read for reader in readers)
    from_followers = sum(reader.follower_bytes for reader in readers)
    # A partition has one leader, in one rack: of three consumers that read at leaders, two are in other racks.
    across = _crossed(cluster) - crossed if names_racks else total * (len(RACKS) - 1) / len(RACKS)
    latencies = sorted(one for reader in readers for one in reader.latencies_ms)
    for reader in readers:
        reader.close()
    return {
        "consumers": "in their racks" if names_racks else "at leaders",
        "mb_read": round(total / 1e6, 1),
        "mb_from_followers": round(from_followers / 1e6, 1),
        "mb_across_racks": round(across / 1e6, 1),
        "mb_per_s_slowest": round(size_bytes / took_s / 1e6, 1),
        "latency_p50_ms": round(median(latencies), 1),
        "latency_p99_ms": round(quantiles(latencies, n=100)[98], 1),
    }


def _crossed(cluster: Cluster) -> float:
    return sum(_sent(cluster, index, "penstock_cross_rack_bytes_out_total") for index in range(len(RACKS)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64, help="MiB that each consumer reads (default 64)")
    parser.add_argument("--records", type=int, default=200, help="records whose latency is measured (default 200)")
    parser.add_argument("--turns", type=int, default=2, help="turns of each kind (default 2)")
    given = parser.parse_args(arguments)
    configs = [{"broker.rack": rack, SELECTS: "rack-aware"} for rack in RACKS]
    crossed = 0.0
    with Cluster(len(RACKS), node_configs=configs) as cluster:
        for _ in range(given.turns):
            for names_racks in (False, True):
                row = _turn(cluster, names_racks=names_racks, size_bytes=given.mib * MIB, records=given.records)
                print(json.dumps(row), flush=True)
                crossed += float(str(row["mb_across_racks"])) if names_racks else 0.0
    return int(crossed > 0)


if __name__ == "__main__":
    sys.exit(main())
