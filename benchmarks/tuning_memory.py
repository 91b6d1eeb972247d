"""The memory of one node as its partitions grow, for benchmarks/tuning.py: empty, and after an append to each.

Resident memory, as the kernel counts it for the node's process. No consumer is there: one of all partitions adds its
session (fetch.sessions.max.bytes).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock import Admin, Producer
from penstock.testing import Cluster

TOPIC_PARTITIONS_MAX = 5_000
KIB = 1024


def resident_kib(cluster: Cluster) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{cluster.pid(0)}/status").read_text())
    if found is None:
        raise SystemExit("/proc has no resident memory of the node")
    return int(found[1])


def descriptors(cluster: Cluster) -> int:
    return len(list(Path(f"/proc/{cluster.pid(0)}/fd").iterdir()))


def memory_rows(counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A row for each number of partitions, each on a fresh node."""
    for count in counts:
        yield _memory_row(count)


def _memory_row(count: int) -> dict[str, Any]:
    with Cluster(1, defaults={}) as cluster, Admin(cluster.bootstrap) as admin:
        empty = resident_kib(cluster)
        topics = {f"many-{at}": min(TOPIC_PARTITIONS_MAX, count - at) for at in range(0, count, TOPIC_PARTITIONS_MAX)}
        began = time.monotonic()
        for topic, partitions in topics.items():
            admin.create_topic(topic, partitions, 1)
        created_s = time.monotonic() - began
        with Producer(cluster.bootstrap) as producer:
            for topic, partitions in topics.items():
                for partition in range(partitions):
                    producer.send(topic, value=b"v", partition=partition)
            producer.flush()
        written = resident_kib(cluster)
        return {
            "row": f"{count:,} partitions",
            "partitions": count,
            "create_s": round(created_s, 1),
            "empty_mib": round(empty / KIB, 1),
            "written_mib": round(written / KIB, 1),
            "kib_each": round((written - empty) / count, 1),
            "descriptors": descriptors(cluster),
        }
