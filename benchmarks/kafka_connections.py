"""The cost of connections of Kafka's clients: many idle ones, and whether active ones share a node fairly.

    python -m benchmarks.kafka_connections [--idle 2000] [--active 200] [--seconds 5]

One node. Idle connections have said ApiVersions, as clients do, and are silent then: the node's memory for each, and
its processor time beside its time without them. Active ones each ask for the cluster's metadata, one request after the
other: how much the slowest and the quickest get beside the median. Exit code 1 when an idle connection costs more than
20 KiB, when all together take more than 2 % of a core, or when the slowest gets less than half of the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import struct
import sys
import time
from pathlib import Path

from penstock.testing import Cluster

API_VERSIONS, METADATA = 18, 3
IDLE_KIB_MAX, IDLE_SHARE_MAX, FAIR_MIN = 20.0, 0.02, 0.5
SETTLE_S = 2.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def frame(key: int, version: int, body: bytes) -> bytes:
    """A request with header version 1."""
    head = struct.pack(">hhih", key, version, 1, 4) + b"many"
    return struct.pack(">i", len(head) + len(body)) + head + body


HELLO = frame(API_VERSIONS, 0, b"")
ASK = frame(METADATA, 1, struct.pack(">i", 0))  # of no topic: the brokers alone


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    await reader.readexactly(size)


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


async def share_of_a_core(pid: int, seconds: float) -> float:
    cpu, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - cpu) / (time.monotonic() - began)


async def idle(host: str, port: int, pid: int, count: int, seconds: float) -> dict[str, float]:
    """The cost of `count` connections that are silent."""
    warm = [await asyncio.open_connection(host, port) for _ in range(20)]  # what the first ones load is no cost of each
    for reader, writer in warm:
        await asked(reader, writer, HELLO)
    await asyncio.sleep(SETTLE_S)
    rss, share = rss_bytes(pid), await share_of_a_core(pid, seconds)
    made = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, port)
        await asked(reader, writer, HELLO)
        made.append((reader, writer))
    await asyncio.sleep(SETTLE_S)
    grown = rss_bytes(pid) - rss
    with_them = await share_of_a_core(pid, seconds)
    for _, writer in [*made, *warm]:
        writer.close()
    return {
        "connections": count,
        "kib_each": round(grown / 1024 / count, 2),
        "share_before": round(share, 4),
        "share_with_them": round(with_them, 4),
    }


async def active(host: str, port: int, count: int, seconds: float) -> dict[str, float]:
    """How evenly `count` connections are served that ask as fast as they are answered."""
    done = [0] * count
    ends = time.monotonic() + seconds

    async def ask(index: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        while time.monotonic() < ends:
            await asked(reader, writer, ASK)
            done[index] += 1
        writer.close()

    await asyncio.gather(*(ask(index) for index in range(count)))
    median = statistics.median(done)
    return {
        "connections": count,
        "requests_per_s": round(sum(done) / seconds),
        "slowest_of_median": round(min(done) / median, 3),
        "quickest_of_median": round(max(done) / median, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_connections", description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--active", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limits = {"max.connections": arguments.idle + 200, "max.connection.creation.rate": 100_000}
    with Cluster(1, config=limits) as cluster:
        host, _, port = cluster.kafka_bootstrap.rpartition(":")
        silent = asyncio.run(idle(host, int(port), cluster.pid(0), arguments.idle, arguments.seconds))
        print(json.dumps({"row": "idle", **silent}), flush=True)
        busy = asyncio.run(active(host, int(port), arguments.active, arguments.seconds))
        print(json.dumps({"row": "active", **busy}), flush=True)
    is_cheap = silent["kib_each"] <= IDLE_KIB_MAX
    is_quiet = silent["share_with_them"] - silent["share_before"] <= IDLE_SHARE_MAX
    return 0 if is_cheap and is_quiet and busy["slowest_of_median"] >= FAIR_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
